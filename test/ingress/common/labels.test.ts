/** The user, the session and the tags of a request. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { labelsOf } from "../../../apps/ingress/common/labels.ts";

const claudeCode = (more: object) => ({
  metadata: { user_id: JSON.stringify({ device_id: "0f", session_id: "5e2b", ...more }) },
});

const tagsOf = (prefix: string, count: number) => Array.from({ length: count }, (_, index) => `${prefix}${index}`);

const cases: [name: string, headers: Record<string, string>, body: object | undefined, labels: object][] = [
  ["nothing", {}, {}, {}],
  ["no body", {}, undefined, {}],
  ["a header before the body", { "x-sluice-user": "ann" }, { user: "bob" }, { user: "ann" }],
  ["OpenAI's users", {}, { safety_identifier: "s", user: "u" }, { user: "s" }],
  ["Anthropic's user", {}, { metadata: { user_id: "m" } }, { user: "m" }],
  ["Claude Code's user and session", {}, claudeCode({ account_uuid: "acc" }), { user: "acc", session: "5e2b" }],
  ["Claude Code without an account", {}, claudeCode({ account_uuid: "" }), { user: "0f", session: "5e2b" }],
  [
    "Claude Code beside a header",
    { "x-claude-code-session-id": "s", "x-sluice-user": "ann" },
    claudeCode({}),
    { user: "ann", session: "s" },
  ],
  [
    "Claude Code before 2.1.78",
    {},
    { metadata: { user_id: "user_0f_account__session_5e2b-1" } },
    { user: "0f", session: "5e2b-1" },
  ],
  [
    "Claude Code before 2.1.78 with an account",
    {},
    { metadata: { user_id: "user_0f_account_ac-1_session_5e2b" } },
    { user: "ac-1", session: "5e2b" },
  ],
  ["a user that is other JSON", {}, { metadata: { user_id: '{"id":1}' } }, { user: '{"id":1}' }],
  ["a user that looks like JSON", {}, { metadata: { user_id: "{ann}" } }, { user: "{ann}" }],
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
      hasCutTags: true,
    },
  ],
  ...(
    [
      ["ten tags in the header", { "x-sluice-tags": tagsOf("h", 10).join() }, {}, tagsOf("h", 10), false],
      ["eleven tags in the header", { "x-sluice-tags": tagsOf("h", 11).join() }, {}, tagsOf("h", 10), true],
      ["eleven tags in a text", {}, { metadata: { tags: tagsOf("b", 11).join() } }, tagsOf("b", 10), true],
      ["eleven tags in a list", {}, { metadata: { tags: tagsOf("b", 11) } }, tagsOf("b", 10), true],
      ["a long tag", { "x-sluice-tags": "x".repeat(61) }, {}, ["x".repeat(60)], true],
      [
        "more than twenty with those of the key",
        { "x-sluice-tags": tagsOf("h", 10).join() },
        { metadata: { tags: tagsOf("b", 10) } },
        [...tagsOf("h", 10), ...tagsOf("b", 9)],
        true,
      ],
    ] as const
  ).map(([name, headers, body, tags, isCut]): (typeof cases)[number] => [
    name,
    headers,
    body,
    { tags: ["own", ...tags], ...(isCut && { hasCutTags: true }) },
  ]),
];

for (const [name, headers, body, labels] of cases)
  test(`labels of a request: ${name}`, () => {
    const expected = { user: null, session: null, tags: ["own"], ...labels };
    assert.deepEqual(labelsOf({ tags: ["own"] }, headers, body as Record<string, unknown>), expected);
  });
