// Clients in Go: `clients openai`, `clients anthropic` or `clients google` runs the checks of one. The environment names the gateway, the key and the models.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

var (
	url      = os.Getenv("SLUICE_URL")
	key      = os.Getenv("SLUICE_KEY")
	model    = os.Getenv("SLUICE_MODEL")
	broken   = os.Getenv("SLUICE_BROKEN_MODEL")
	paused   = os.Getenv("SLUICE_PAUSED_MODEL")
	reasoner = os.Getenv("SLUICE_REASONER")
)

const (
	greeting   = "You said: hello there\nThis is the simulator: the same words always get the same answer."
	question   = `Use get_weather for "Paris".`
	pausedText = "You said:"
	failure    = "The upstream of this model failed"
)

var schema = map[string]any{
	"type":                 "object",
	"properties":           map[string]any{"city": map[string]any{"type": "string"}},
	"required":             []string{"city"},
	"additionalProperties": false,
}

var answerSchema = map[string]any{
	"type":                 "object",
	"properties":           map[string]any{"color": map[string]any{"type": "string", "enum": []string{"red", "green"}}},
	"required":             []string{"color"},
	"additionalProperties": false,
}

type check struct {
	name string
	body func()
}

// assert ends the check.
func assert(isTrue bool, format string, values ...any) {
	if !isTrue {
		panic(fmt.Sprintf(format, values...))
	}
}

func must[T any](value T, err error) T {
	assert(err == nil, "%v", err)
	return value
}

func getWeather(arguments string) string {
	var input struct {
		City string `json:"city"`
	}
	assert(json.Unmarshal([]byte(arguments), &input) == nil && input.City == "Paris", "arguments: %s", arguments)
	return "It rains."
}

func assertUsedTool(text string) {
	assert(strings.Contains(text, "The tool get_weather returned: ") && strings.Contains(text, "It rains."), "answer: %s", text)
}

func assertAnswer(text string) {
	var answer struct {
		Color string `json:"color"`
	}
	assert(json.Unmarshal([]byte(text), &answer) == nil && (answer.Color == "red" || answer.Color == "green"), "answer: %s", text)
}

// assertFailed fails unless a stream had content, and then an error with the gateway's words.
func assertFailed(text string, err error) {
	assert(text != "", "no content before the error: %v", err)
	assert(err != nil && strings.Contains(err.Error(), failure), "error: %v", err)
}

func run(body func()) (failed any) {
	defer func() { failed = recover() }()
	body()
	return nil
}

func main() {
	clients := map[string]func() []check{"openai": openaiChecks, "anthropic": anthropicChecks, "google": googleChecks}
	exitCode := 0
	for _, check := range clients[os.Args[1]]() {
		began := time.Now()
		var message any
		if failed := run(check.body); failed != nil {
			message = fmt.Sprint(failed)
			exitCode = 1
		}
		fmt.Printf(`{"check":%s,"error":%s,"ms":%d}`+"\n", text(check.name), text(message), time.Since(began).Milliseconds())
	}
	os.Exit(exitCode)
}

func text(value any) string {
	return string(must(json.Marshal(value)))
}
