/** Answers of an upstream of a test's own. */

/** A whole chat completion that says "hi", as JSON. */
export const chatCompletion = JSON.stringify({
  id: "c",
  object: "chat.completion",
  created: 1,
  model: "theirs",
  choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
});
