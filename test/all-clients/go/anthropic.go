package main

import (
	"context"
	"errors"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

func anthropicChecks() []check {
	ctx := context.Background()
	clientOf := func(key string) anthropic.Client {
		return anthropic.NewClient(option.WithAPIKey(key), option.WithBaseURL(url), option.WithMaxRetries(0))
	}
	client := clientOf(key)
	requestOf := func(name, text string) anthropic.MessageNewParams {
		return anthropic.MessageNewParams{
			Model:     anthropic.Model(name),
			MaxTokens: 2000,
			Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))},
		}
	}
	textOf := func(message *anthropic.Message) (text string) {
		for _, block := range message.Content {
			if block.Type == "text" {
				text += block.Text
			}
		}
		return text
	}
	whole := func(params anthropic.MessageNewParams) (*anthropic.Message, error) {
		return client.Messages.New(ctx, params)
	}
	streamed := func(params anthropic.MessageNewParams) (*anthropic.Message, error) {
		stream := client.Messages.NewStreaming(ctx, params)
		message := anthropic.Message{}
		for stream.Next() {
			if err := message.Accumulate(stream.Current()); err != nil {
				return &message, err
			}
		}
		return &message, stream.Err()
	}
	answers := func(ask func(anthropic.MessageNewParams) (*anthropic.Message, error)) func() {
		return func() {
			for _, name := range []string{model, reasoner} {
				message := must(ask(requestOf(name, "hello there")))
				assert(textOf(message) == greeting && message.StopReason == "end_turn" && message.Usage.OutputTokens > 0, "answer: %s", text(message))
			}
		}
	}
	loop := func(ask func(anthropic.MessageNewParams) (*anthropic.Message, error)) func() {
		return func() {
			for _, name := range []string{model, reasoner} {
				params := requestOf(name, question)
				if name == reasoner {
					params.Thinking = anthropic.ThinkingConfigParamUnion{OfAdaptive: &anthropic.ThinkingConfigAdaptiveParam{}}
				}
				params.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{
					Name:        "get_weather",
					Description: anthropic.String("Says the weather of a city."),
					InputSchema: anthropic.ToolInputSchemaParam{Properties: schema["properties"], Required: []string{"city"}},
				}}}
				message := must(ask(params))
				results := []anthropic.ContentBlockParamUnion{}
				for _, block := range message.Content {
					if block.Type == "tool_use" {
						results = append(results, anthropic.NewToolResultBlock(block.ID, getWeather(string(block.Input)), false))
					}
				}
				params.Messages = append(params.Messages, message.ToParam(), anthropic.NewUserMessage(results...))
				message = must(ask(params))
				assertUsedTool(textOf(message))
				params.Messages = append(params.Messages, message.ToParam(), anthropic.NewUserMessage(anthropic.NewTextBlock("hello there")))
				assert(textOf(must(ask(params))) == greeting, "second turn")
			}
		}
	}
	return []check{
		{"whole answer", answers(whole)},
		{"streamed answer", answers(streamed)},
		{"tool loop", loop(whole)},
		{"streamed tool loop", loop(streamed)},
		{"structured output", func() {
			for _, name := range []string{model, reasoner} {
				params := requestOf(name, "hello there")
				params.OutputConfig = anthropic.OutputConfigParam{Format: anthropic.JSONOutputFormatParam{Schema: answerSchema}}
				assertAnswer(textOf(must(whole(params))))
			}
		}},
		{"count tokens and models", func() {
			count := must(client.Messages.CountTokens(ctx, anthropic.MessageCountTokensParams{
				Model: anthropic.Model(model), Messages: requestOf(model, "hello there").Messages,
			}))
			assert(count.InputTokens > 0, "tokens: %d", count.InputTokens)
			page := must(client.Models.List(ctx, anthropic.ModelListParams{}))
			assert(len(page.Data) > 0, "no models")
		}},
		{"wrong key", func() {
			stranger := clientOf("nothing")
			_, err := stranger.Messages.New(ctx, requestOf(model, "hello there"))
			var refused *anthropic.Error
			assert(errors.As(err, &refused) && refused.StatusCode == 401, "error: %v", err)
		}},
		{"broken stream", func() {
			message, err := streamed(requestOf(broken, "hello there"))
			assertFailed(textOf(message), err)
		}},
		{"keep-alives", func() {
			message, err := streamed(requestOf(paused, "hello there"))
			assert(err == nil && textOf(message) == pausedText, "answer: %s, error: %v", text(message), err)
		}},
	}
}
