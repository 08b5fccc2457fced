package main

import (
	"context"
	"errors"

	"google.golang.org/genai"
)

func googleChecks() []check {
	ctx := context.Background()
	clientOf := func(key string) *genai.Client {
		return must(genai.NewClient(ctx, &genai.ClientConfig{
			APIKey: key, Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: url},
		}))
	}
	client := clientOf(key)
	hello := genai.Text("hello there")
	// The text without thoughts, and all parts.
	streamed := func(name string, contents []*genai.Content, config *genai.GenerateContentConfig) (answer string, parts []*genai.Part, err error) {
		for chunk, err := range client.Models.GenerateContentStream(ctx, name, contents, config) {
			if err != nil {
				return answer, parts, err
			}
			answer += chunk.Text()
			if len(chunk.Candidates) > 0 && chunk.Candidates[0].Content != nil {
				for _, part := range chunk.Candidates[0].Content.Parts {
					// The library leaves out empty texts, also those with a signature, and Gemini refuses a part without content.
					if part.Text != "" || part.FunctionCall != nil {
						parts = append(parts, part)
					}
				}
			}
		}
		return answer, parts, nil
	}
	whole := func(name string, contents []*genai.Content, config *genai.GenerateContentConfig) (string, []*genai.Part, error) {
		response, err := client.Models.GenerateContent(ctx, name, contents, config)
		if err != nil {
			return "", nil, err
		}
		return response.Text(), response.Candidates[0].Content.Parts, nil
	}
	type asker func(string, []*genai.Content, *genai.GenerateContentConfig) (string, []*genai.Part, error)
	loop := func(ask asker) func() {
		return func() {
			for _, name := range []string{model, reasoner} {
				config := &genai.GenerateContentConfig{Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{
					{Name: "get_weather", Description: "Says the weather of a city.", ParametersJsonSchema: schema},
				}}}}
				contents := genai.Text(question)
				_, parts, err := ask(name, contents, config)
				assert(err == nil, "%v", err)
				results := []*genai.Part{}
				for _, part := range parts {
					if call := part.FunctionCall; call != nil {
						result := &genai.FunctionResponse{ID: call.ID, Name: call.Name, Response: map[string]any{"output": getWeather(text(call.Args))}}
						results = append(results, &genai.Part{FunctionResponse: result})
					}
				}
				contents = append(contents, &genai.Content{Role: "model", Parts: parts}, &genai.Content{Role: "user", Parts: results})
				answer, parts, err := ask(name, contents, config)
				assert(err == nil, "%v", err)
				assertUsedTool(answer)
				contents = append(contents, &genai.Content{Role: "model", Parts: parts}, hello[0])
				answer, _, err = ask(name, contents, config)
				assert(err == nil && answer == greeting, "second turn: %s, %v", answer, err)
			}
		}
	}
	return []check{
		{"whole answer", func() {
			for _, name := range []string{model, reasoner} {
				response := must(client.Models.GenerateContent(ctx, name, hello, nil))
				assert(response.Text() == greeting && response.UsageMetadata.TotalTokenCount > 0, "answer: %s", response.Text())
			}
		}},
		{"streamed answer", func() {
			for _, name := range []string{model, reasoner} {
				text, _, err := streamed(name, hello, nil)
				assert(err == nil && text == greeting, "answer: %s, error: %v", text, err)
			}
		}},
		{"tool loop", loop(whole)},
		{"streamed tool loop", loop(streamed)},
		{"structured output", func() {
			for _, name := range []string{model, reasoner} {
				text, _, err := whole(name, hello, &genai.GenerateContentConfig{ResponseMIMEType: "application/json", ResponseJsonSchema: answerSchema})
				assert(err == nil, "%v", err)
				assertAnswer(text)
			}
		}},
		{"count tokens", func() {
			assert(must(client.Models.CountTokens(ctx, model, hello, nil)).TotalTokens > 0, "no tokens")
		}},
		{"wrong key", func() {
			_, err := clientOf("nothing").Models.GenerateContent(ctx, model, hello, nil)
			var refused genai.APIError
			assert(errors.As(err, &refused) && refused.Code == 400, "error: %v", err)
		}},
		{"broken stream", func() {
			text, _, err := streamed(broken, hello, nil)
			assertFailed(text, err)
		}},
		{"keep-alives", func() {
			text, _, err := streamed(paused, hello, nil)
			assert(err == nil && text == pausedText, "answer: %s, error: %v", text, err)
		}},
	}
}
