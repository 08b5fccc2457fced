/** The user, the session and the tags of a request. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { labelsOf } from "../../../apps/ingress/common/labels.ts";

const cases: [name: string, headers: Record<string, string>, body: object | undefined, labels: object][] = [
  ["nothing", {}, {}, {}],
  ["no body", {}, undefined, {}],
  ["a header before the body", { "x-sluice-user": "ann" }, { user: "bob" }, { user: "ann" }],
  ["OpenAI's users", {}, { safety_identifier: "s", user: "u" }, { user: "s" }],
  ["Anthropic's user", {}, { metadata: { user_id: "m" } }, { user: "m" }],
  ["a long user", {}, { user: "u".repeat(300) }, { user: "u".repeat(200) }],
  ["an odd body", {}, { user: 5, metadata: null, prompt_cache_key: {} }, {}],
  ["metadata that is a list", {}, { metadata: ["x"] }, {}],
  [
    "the header of a session",
    { "x-sluice-session": "s1", session_id: "s2" },
    { prompt_cache_key: "k" },
    { session: "s1" },
  ],
  ["Codex's session", { session_id: "s2" }, {}, { session: "s2" }],
  ["sessions of a body", {}, { prompt_cache_key: "", metadata: { session_id: "m" } }, { session: "m" }],
  ["a session that is too long", {}, { prompt_cache_key: "k".repeat(256) }, {}],
  [
    "tags of header and body",
    { "x-sluice-tags": "a, b" },
    { metadata: { tags: "b,c" } },
    { tags: ["own", "a", "b", "c"] },
  ],
  ["a list of tags", {}, { metadata: { tags: ["a", 5, "", "own"] } }, { tags: ["own", "a"] }],
  [
    "too many tags",
    { "x-sluice-tags": Array.from({ length: 15 }, (_, index) => `h${index}`).join() },
    { metadata: { tags: Array.from({ length: 50 }, (_, index) => `${index}`.padEnd(90, "x")) } },
    {
      tags: [
        "own",
        ...Array.from({ length: 10 }, (_, index) => `h${index}`),
        ...Array.from({ length: 9 }, (_, index) => `${index}`.padEnd(60, "x")),
      ],
    },
  ],
];

for (const [name, headers, body, labels] of cases)
  test(`labels of a request: ${name}`, () => {
    const expected = { user: null, session: null, tags: ["own"], ...labels };
    assert.deepEqual(labelsOf({ tags: ["own"] }, headers, body as Record<string, unknown>), expected);
  });
