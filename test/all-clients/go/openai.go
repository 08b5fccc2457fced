package main

import (
	"context"
	"errors"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

func openaiChecks() []check {
	ctx := context.Background()
	clientOf := func(key string) openai.Client {
		return openai.NewClient(option.WithAPIKey(key), option.WithBaseURL(url+"/v1"), option.WithMaxRetries(0))
	}
	client := clientOf(key)
	chatOf := func(name, text string) openai.ChatCompletionNewParams {
		return openai.ChatCompletionNewParams{Model: name, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
	}
	responseOf := func(name, text string) responses.ResponseNewParams {
		return responses.ResponseNewParams{Model: name, Input: responses.ResponseNewParamsInputUnion{OfString: param.NewOpt(text)}}
	}
	streamChat := func(params openai.ChatCompletionNewParams) (openai.ChatCompletionAccumulator, string, error) {
		stream := client.Chat.Completions.NewStreaming(ctx, params)
		answer := openai.ChatCompletionAccumulator{}
		text := ""
		for stream.Next() {
			chunk := stream.Current()
			assert(answer.AddChunk(chunk), "a chunk that does not fit: %s", chunk.RawJSON())
			if len(chunk.Choices) > 0 {
				text += chunk.Choices[0].Delta.Content
			}
		}
		return answer, text, stream.Err()
	}
	streamResponse := func(params responses.ResponseNewParams) (*responses.Response, string, error) {
		stream := client.Responses.NewStreaming(ctx, params)
		var final *responses.Response
		text := ""
		for stream.Next() {
			event := stream.Current()
			if event.Type == "response.output_text.delta" {
				text += event.Delta
			}
			if event.Type == "response.completed" {
				final = &event.Response
			}
			if event.Type == "response.failed" {
				return &event.Response, text, errors.New(event.Response.Error.Message)
			}
			if event.Type == "error" {
				return nil, text, errors.New(event.Message)
			}
		}
		return final, text, stream.Err()
	}
	format := shared.ResponseFormatJSONSchemaParam{
		JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Strict: openai.Bool(true), Schema: answerSchema},
	}
	return []check{
		{"whole answer", func() {
			for _, name := range []string{model, reasoner} {
				chat := must(client.Chat.Completions.New(ctx, chatOf(name, "hello there")))
				assert(chat.Choices[0].Message.Content == greeting && chat.Usage.TotalTokens > 0, "answer: %s", chat.RawJSON())
				response := must(client.Responses.New(ctx, responseOf(name, "hello there")))
				assert(response.OutputText() == greeting && response.Usage.TotalTokens > 0, "answer: %s", response.RawJSON())
			}
		}},
		{"streamed answer", func() {
			for _, name := range []string{model, reasoner} {
				params := chatOf(name, "hello there")
				params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
				answer, text, err := streamChat(params)
				assert(err == nil && text == greeting && answer.Usage.TotalTokens > 0, "answer: %s, error: %v", text, err)
				final, text, err := streamResponse(responseOf(name, "hello there"))
				assert(err == nil && text == greeting && final.OutputText() == greeting, "answer: %s, error: %v", text, err)
			}
		}},
		{"tool loop over chat", func() {
			for _, isStreamed := range []bool{false, true} {
				for _, name := range []string{model, reasoner} {
					params := chatOf(name, question)
					params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
						Name: "get_weather", Description: openai.String("Says the weather of a city."), Parameters: schema, Strict: openai.Bool(true),
					})}
					ask := func() openai.ChatCompletionMessage {
						if isStreamed {
							answer, _, err := streamChat(params)
							return must(answer, err).Choices[0].Message
						}
						return must(client.Chat.Completions.New(ctx, params)).Choices[0].Message
					}
					message := ask()
					params.Messages = append(params.Messages, message.ToParam())
					for _, call := range message.ToolCalls {
						params.Messages = append(params.Messages, openai.ToolMessage(getWeather(call.Function.Arguments), call.ID))
					}
					message = ask()
					assertUsedTool(message.Content)
					params.Messages = append(params.Messages, message.ToParam(), openai.UserMessage("hello there"))
					assert(ask().Content == greeting, "second turn")
				}
			}
		}},
		{"tool loop over responses", func() {
			for _, isStreamed := range []bool{false, true} {
				for _, name := range []string{model, reasoner} {
					params := responseOf(name, question)
					params.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction("get_weather", schema, true)}
					ask := func() *responses.Response {
						if isStreamed {
							final, _, err := streamResponse(params)
							return must(final, err)
						}
						return must(client.Responses.New(ctx, params))
					}
					first := ask()
					params.PreviousResponseID = openai.String(first.ID)
					results := responses.ResponseInputParam{}
					for _, item := range first.Output {
						if item.Type == "function_call" {
							call := item.AsFunctionCall()
							result := responses.ResponseInputItemParamOfFunctionCallOutput(getWeather(call.Arguments))
							result.OfFunctionCallOutput.CallID = openai.String(call.CallID)
							results = append(results, result)
						}
					}
					params.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: results}
					assertUsedTool(ask().OutputText())
				}
			}
		}},
		{"structured output", func() {
			for _, name := range []string{model, reasoner} {
				params := chatOf(name, "hello there")
				params.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &format}
				assertAnswer(must(client.Chat.Completions.New(ctx, params)).Choices[0].Message.Content)
			}
		}},
		{"wrong key", func() {
			_, err := func() (any, error) {
				stranger := clientOf("nothing")
				return stranger.Chat.Completions.New(ctx, chatOf(model, "hello there"))
			}()
			var refused *openai.Error
			assert(errors.As(err, &refused) && refused.StatusCode == 401, "error: %v", err)
		}},
		{"broken stream", func() {
			_, text, err := streamChat(chatOf(broken, "hello there"))
			assertFailed(text, err)
			_, text, err = streamResponse(responseOf(broken, "hello there"))
			assertFailed(text, err)
		}},
		{"keep-alives", func() {
			_, text, err := streamChat(chatOf(paused, "hello there"))
			assert(err == nil && text == pausedText, "answer: %s, error: %v", text, err)
			_, text, err = streamResponse(responseOf(paused, "hello there"))
			assert(err == nil && text == pausedText, "answer: %s, error: %v", text, err)
		}},
	}
}
