import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { scrubbed } from "#dialects/upstream-errors/scrub.ts";

const secrets = [
  "sk-proj-Ab12Cd34Ef56Gh78Ij90",
  "sk-ant-api03-Ab12_Cd34-Ef56Gh78",
  "sk-or-v1-0123456789abcdef0123456789abcdef",
  "sk-0123456789abcdef0123456789abcdef",
  "sk-proj-********************abcd",
  "sk-WRQsP***************************************xQBt",
  "sk-...abcd1234",
  "na***ys",
  "gsk_Ab12Cd34Ef56Gh78Ij90Kl12",
  "xai-Ab12Cd34Ef56Gh78Ij90Kl12",
  "AKIAIOSFODNN7EXAMPLE",
  "ASIAIOSFODNN7EXAMPLE",
  "AIzaSyA0bC1dE2fG3hI4jK5lM6nO7pQ8rS9tU0v",
  "AIza****************************",
  "ya29.a0AfH6SMBx-Yz_1234567890",
  "hf_AbCdEfGhIjKlMnOpQrStUvWxYz",
  "r8_Ab12Cd34Ef56Gh78Ij90Kl12Mn34",
  "nvapi-Ab12Cd34Ef56Gh78Ij90",
  "pplx-0123456789abcdef0123456789abcdef",
  "csk-0123456789abcdefghij",
  "ghp_Ab12Cd34Ef56Gh78Ij90Kl12",
  "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
  "Bearer abc123def456",
  "bearer: Zm9vYmFyMTIz",
  "0123456789abcdef0123456789abcdef",
  "org-AbCdEf123456GhIjKl",
  "org_01hw8f0aa0ekmrn70ffm2zkdv1",
  "proj_JMo3Q9spNIEWhSxusokLegJY",
  "user_3D0IVsejFIV6kOYwkxFE9nKiq0g",
  "team 16f2151a-40f4-4a80-8ad0-cae00c27e8dd",
  "API key ID: 9a1b2c3d-8f0e-4c1d-9d0a-0123456789ab",
  "projects/177838813423",
  "project_number:297700366322",
  "arn:aws:iam::123456789012:user/alice",
  "api_key=hunter2hunter2",
  "x-api-key: s3cr3tvalue",
  "alice.smith+ai@example-corp.com",
];

const addresses = [
  "https://api.internal.example/v1?key=1",
  "http://10.0.0.1:8000/v1/chat/completions",
  "redis://default@cache:6379",
  "api.internal.corp:8080",
  "api.internal.corp",
  "vllm-0.vllm.svc.cluster.local",
  "vllm-0.vllm.svc.cluster.local:8000",
  "generativelanguage.googleapis.com",
  "my-resource.openai.azure.com",
  "localhost",
  "localhost:8000",
  "gpu-node-3:8000",
  "upstream vllm:8000",
  "10.1.2.3",
  "192.168.0.17:11434",
  "fe80::1",
  "fe80::1ff:fe23:4567:890a%eth0",
  "[2001:db8::1]:8443",
  "2001:0db8:85a3:0000:0000:8a2e:0370:7334",
  "::1",
  "[::1]:8000",
  "::ffff:10.0.0.1",
  "ip-10-0-12-34.ec2.internal",
];

const ordinary = [
  "keyword_search_documents",
  "key_value_store_lookup",
  "key-value-store-lookup",
  "keyboard-shortcuts-reference",
  "sketch-board-long-identifier",
  "risk-assessment-report-2024",
  "task-scheduler-v2",
  "organization-chart-layout",
  "org-chart-layout",
  "user_profile_lookup_table",
  "project_management_tools",
  "bearer authentication",
  "Bearer token required",
  "index.ts",
  "index.ts:42",
  "config.yaml",
  "main.py",
  "README.md",
  "node.js",
  "1.2.3",
  "v2.0.1-beta.3",
  "claude-3.5-sonnet",
  "claude-3-5-sonnet-20241022",
  "claude-sonnet-4@20250514",
  "us.anthropic.claude-opus-4-20250514-v1:0",
  "gpt-4.1-mini",
  "gpt-4o-2024-08-06",
  "llama3.1:70b",
  "qwen2.5-coder:32b",
  "deepseek-r1:14b",
  "meta-llama/Llama-3.3-70B",
  "@cf/meta/llama-3.1-8b-instruct",
  "messages.0.content.1.text",
  "messages[0].content[1].image_url",
  "tools.0.function.name",
  "tools.0.custom.input_schema.properties.address.local",
  "metadata.user.org",
  "generation_config.response_schema",
  "generationConfig.thinkingConfig.includeThoughts",
  "response_format.json_schema",
  "12:30:45",
  "2026-04-01 at 00:00 UTC",
  "a::b",
  "std::vector",
  "max_tokens: 8192",
  "max_tokens=4096 and top_p=0.9",
  "temperature: 0.7",
  "1:2",
  "call_AbCdEf0123456789abcdefgh",
  "toolu_01A09q90qw90lq917835lq9",
  "rs_68c9f3c8a1b48190a1d2e3f4a5b6c7d80123456789abcdef",
  "req_011CbrFTcXhtiMzr3s6EocF7",
  "e.g. this, i.e. that",
  "**bold** and * items",
  "prompt is too long: 219898 tokens > 200000 maximum",
  "(parameter=input_tokens, max_tokens, value=(8, 2045))",
  "Extra inputs are not permitted",
  "image/png",
  "application/json; charset=utf-8",
  "done.In short",
];

test("secrets, accounts and addresses are removed at any position", () => {
  for (const secret of [...secrets, ...addresses]) {
    const core = secret.replace(
      /^(?:bearer:?|team|API key ID:|upstream|x-api-key:|api_key=|project_number:|projects\/)\s*/i,
      "",
    );
    for (const text of [
      secret,
      `before ${secret} after`,
      `"${secret}"`,
      `(${secret})`,
      `at ${secret}.`,
      `a=${secret}, b`,
      `'${secret}':`,
      `<${secret}>`,
    ])
      assert.ok(!scrubbed(text).includes(core), `${text} -> ${scrubbed(text)}`);
    assert.match(scrubbed(`before ${secret} after`), /^before .* after$/);
  }
});

test("ordinary words stay unchanged", () => {
  for (const word of ordinary)
    for (const text of [
      word,
      `before ${word} after`,
      `"${word}"`,
      `'${word}' is not one of them.`,
      `${word}: Field required`,
      `see ${word}.`,
    ])
      assert.equal(scrubbed(text), text);
});

const alphanumeric = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"];
/** As keys are: never a word. */
const tail = (size: number) =>
  fc
    .array(fc.constantFrom(...alphanumeric), { minLength: size, maxLength: 2 * size })
    .map((characters) => `a1B${characters.join("")}`);
const planted = fc.oneof(
  ...[
    "sk-",
    "sk-proj-",
    "sk-ant-api03-",
    "gsk_",
    "xai-",
    "hf_",
    "r8_",
    "AIza",
    "ya29.",
    "org-",
    "proj_",
    "nvapi-",
    "Bearer ",
    "eyJ",
  ].map((prefix) => tail(20).map((rest) => ({ prefix, rest }))),
  fc
    .array(fc.constantFrom(...alphanumeric.slice(0, 26), ..."234567"), { minLength: 16, maxLength: 16 })
    .map((rest) => ({ prefix: "AKIA", rest: rest.join("") })),
  fc
    .tuple(
      fc.stringMatching(/^[a-z][a-z0-9]{3,10}$/),
      fc.constantFrom("corp", "internal", "svc.cluster.local", "example.com"),
      fc.integer({ min: 80, max: 65_535 }),
    )
    .map(([name, zone, port]) => ({ prefix: "", rest: `x${name}.${zone}:${port}` })),
  fc.ipV4().map((rest) => ({ prefix: "", rest })),
);
const around = fc.oneof(
  fc.constantFrom(" ", ", ", '"', "'", "(", ")", "=", "`", "\n", ""),
  fc.stringMatching(/^[a-z ]{0,20} $/),
);

test("a secret never survives, whatever surrounds it", () => {
  fc.assert(
    fc.property(
      around,
      planted,
      fc.constantFrom("", " ", ",", ".", ")", '"', "'", "\n", "; more"),
      (before, { prefix, rest }, after) => {
        const shown = scrubbed(`${before}${prefix}${rest}${after}`);
        assert.ok(!shown.includes(rest), shown);
      },
    ),
  );
});

test("scrubbing is idempotent", () => {
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.constantFrom(...secrets, ...addresses, ...ordinary), fc.string()), { maxLength: 8 }),
      (parts) => {
        const once = scrubbed(parts.join(" "));
        assert.equal(scrubbed(once), once);
      },
    ),
  );
});

test("hostile text takes linear time", () => {
  const hostile = [
    "a",
    "a.",
    "a:",
    ":",
    "1.",
    "::1:",
    "sk-",
    "eyJ.",
    "a@",
    "@a.",
    "*a",
    "-",
    "//",
    "a://",
    "Bearer ",
    "key=",
    "[",
    "project ",
    "0a:",
    "org-",
  ];
  const start = performance.now();
  for (const unit of hostile) scrubbed(unit.repeat(Math.ceil(200_000 / unit.length)));
  // Linear work takes a few hundred ms in all; quadratic work takes tens of seconds for a single
  // text.
  assert.ok(performance.now() - start < 10_000);
});
