import assert from "node:assert/strict";
import { test } from "node:test";
import type { NeutralRequest, Part } from "#dialects/neutral/neutral.ts";
import { estimatedTokensOf, textTokensOf } from "#operations/token-estimate.ts";
import { workMsOf } from "../../support/time.ts";

const path = "p";
const requestOf = (parts: Part[], more: Partial<NeutralRequest> = {}): NeutralRequest => ({
  system: [],
  messages: [{ role: "user", parts, path }],
  tools: [],
  settings: {},
  ...more,
});
const text = (value: string): Part => ({ kind: "text", text: value, path });

test("texts are counted with a real vocabulary", async () => {
  assert.equal(await textTokensOf(["The quick brown fox jumps over the lazy dog."]), 10);
  assert.equal(await textTokensOf([]), 0);
});

test("system prompts, tools, schemas, calls, results and images all count", async () => {
  const least = await estimatedTokensOf(requestOf([text("hi")]));
  const png = "iVBORw0KGgoAAAANSUhEUgAABAAAAAQACAYAAAB/HSuDAAAADUlEQVR42mNk";
  const more: NeutralRequest[] = [
    requestOf([text("hi")], { system: [{ kind: "text", text: "Be brief.", path }] }),
    requestOf([text("hi")], {
      tools: [
        {
          name: "weather",
          callerName: "weather",
          description: "Says the weather.",
          parameters: { type: "object" },
          path,
        },
      ],
    }),
    requestOf([text("hi")], {
      settings: {
        format: {
          value: { kind: "schema", schema: { type: "object", properties: { city: { type: "string" } } } },
          path,
        },
      },
    }),
    requestOf([text("hi"), { kind: "call", id: "1", name: "weather", input: '{"city":"Paris"}', path }]),
    requestOf([
      text("hi"),
      {
        kind: "result",
        callId: "1",
        name: "weather",
        content: [{ kind: "text", text: "It rains.", path }],
        isError: false,
        path,
      },
    ]),
    requestOf([text("hi"), { kind: "image", source: { kind: "data", mimeType: "image/png", data: png }, path }]),
    requestOf([text("hi"), { kind: "image", source: { kind: "url", url: "https://example.com/a.png" }, path }]),
    requestOf([text("hi"), { kind: "file", source: { kind: "data", mimeType: "application/pdf", data: png }, path }]),
  ];
  for (const request of more) assert.ok((await estimatedTokensOf(request)) > least, JSON.stringify(request));
  const picture = await estimatedTokensOf(
    requestOf([{ kind: "image", source: { kind: "data", mimeType: "image/png", data: png }, path }]),
  );
  assert.ok(picture >= 1_024 && picture <= 1_604, String(picture));
});

test("long and hostile texts cost bounded work, and the estimate is about right", async () => {
  const sentence = "The quick brown fox jumps over the lazy dog. ";
  for (const [hostile, tokens] of [
    ["a".repeat(1_000_000), 130_000],
    [" ".repeat(1_000_000), 20_000],
    [sentence.repeat(100_000), 1_000_000],
    ["\u6f22".repeat(300_000), 300_000],
  ] as const) {
    let counted = 0;
    const ms = await workMsOf(async () => {
      counted = await textTokensOf([hostile]);
    });
    assert.ok(ms < 2_000, `${ms} ms`);
    assert.ok(counted > tokens / 2 && counted < tokens * 2, `${hostile.slice(0, 10)}: ${counted}`);
  }
});
