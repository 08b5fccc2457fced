/** The member names are those of `ModelInfo` in `@anthropic-ai/sdk`. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { modelInfoOf } from "#dialects/anthropic-messages/profile.ts";
import type { UpstreamDialect } from "#dialects/dialect.ts";
import { modelTraitsOf } from "#dialects/neutral/model-traits.ts";

interface Support {
  supported: boolean;
  [name: string]: boolean | Support;
}
type Info = Record<string, unknown> & { capabilities: Record<string, Support> | null };

const infoOf = (dialect: UpstreamDialect, model: string, capabilities: string[]): Info =>
  modelInfoOf({
    id: "m",
    name: "M",
    ownedBy: "o",
    created: 0,
    capabilities,
    targetOf: () => ({ dialect, model, traits: modelTraitsOf(dialect, model) }),
  }) as Info;

const all = ["text", "tools", "vision", "json", "reasoning"];

/** The names of what is supported, with those inside, such as `thinking.types.adaptive`. */
function supportedIn(value: unknown, path: string): string[] {
  if (typeof value !== "object" || value === null) return [];
  const { supported, ...inner } = value as Record<string, unknown>;
  return [
    ...(supported === true ? [path] : []),
    ...Object.entries(inner).flatMap(([name, member]) => supportedIn(member, path === "" ? name : `${path}.${name}`)),
  ];
}

const cases: [name: string, UpstreamDialect, string, string[], has: string[], lacks: string[]][] = [
  [
    "a Claude that thinks by effort",
    "anthropic-messages",
    "claude-opus-4-8",
    all,
    ["effort.xhigh", "thinking.types.adaptive", "thinking.types.disabled", "server_tools.web_search", "citations"],
    ["thinking.types.enabled", "batch"],
  ],
  [
    "a Claude that takes both kinds of thinking",
    "anthropic-messages",
    "claude-sonnet-4-6",
    all,
    ["thinking.types.adaptive", "thinking.types.enabled", "effort.max"],
    ["effort.xhigh"],
  ],
  [
    "a Claude with a thinking budget",
    "anthropic-messages",
    "claude-sonnet-4-5-20250929",
    all,
    ["thinking", "thinking.types.enabled", "structured_outputs"],
    ["thinking.types.adaptive", "effort", "effort.low"],
  ],
  [
    "a Claude that always thinks",
    "anthropic-messages",
    "claude-fable-5-5",
    all,
    ["thinking.types.adaptive"],
    ["thinking.types.disabled"],
  ],
  [
    "a translated model that reasons",
    "openai-responses",
    "gpt-6",
    all,
    ["thinking.types.adaptive", "thinking.types.enabled", "thinking.types.disabled", "effort.low", "image_input"],
    ["citations", "server_tools", "context_management", "code_execution"],
  ],
  [
    "a translated model that only writes",
    "openai-chat",
    "small",
    ["text"],
    ["thinking.types.disabled"],
    ["thinking", "effort", "image_input", "pdf_input", "structured_outputs"],
  ],
];

for (const [name, dialect, model, capabilities, has, lacks] of cases)
  test(`the list for Anthropic's clients says what requests may use: ${name}`, () => {
    const capabilityNames = supportedIn(infoOf(dialect, model, capabilities).capabilities, "");
    for (const one of has) assert.ok(capabilityNames.includes(one), `${one} is missing in ${capabilityNames}`);
    for (const one of lacks) assert.ok(!capabilityNames.includes(one), `${one} is in ${capabilityNames}`);
  });

test("every member of the vendor's capabilities is present, and a model without any says that they are unknown", () => {
  const { capabilities, ...info } = infoOf("anthropic-messages", "claude-opus-5", all);
  assert.deepEqual(Object.keys(capabilities ?? {}).sort(), [
    "batch",
    "citations",
    "code_execution",
    "context_management",
    "effort",
    "image_input",
    "pdf_input",
    "server_tools",
    "structured_outputs",
    "thinking",
  ]);
  assert.deepEqual([info.lifecycle, info.deprecated_at, info.retires_at, info.line], ["active", null, null, "opus"]);
  assert.equal(infoOf("anthropic-messages", "claude-opus-5", []).capabilities, null);
});

test("a model's line is that of its Claude, in every spelling of the name", () => {
  for (const [model, line] of [
    ["claude-3-5-haiku-20241022", "haiku"],
    ["anthropic.claude-sonnet-4-5-20250929-v1:0", "sonnet"],
    ["anthropic/claude-opus-4.7", "opus"],
    ["claude-mythos-5", "mythos"],
    ["gpt-6-opus", null],
  ] as const)
    assert.equal(infoOf("anthropic-messages", model, all).line, line, model);
});
