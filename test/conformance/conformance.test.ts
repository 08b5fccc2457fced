/**
 * The conformance matrix: every caller's dialect against every upstream's, through real processes,
 * for every case. Produces the table of docs/conformance.md and the golden files; `npm run
 * conformance` writes them, the test compares.
 */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { startGateway } from "../support/gateway.ts";
import { png } from "../support/png.ts";
import { bodyAnswer, startScriptedUpstream } from "../support/upstream.ts";
import type { Caller, Observed } from "./ask.ts";
import { callers } from "./callers/callers.ts";
import { type Case, casesOf } from "./cases.ts";
import { type OperationCase, operationCases } from "./operations.ts";
import { startRecorder } from "./recorder.ts";

const writes = process.env.CONFORMANCE_WRITE === "1";
const goldenFolder = join(import.meta.dirname, "golden");
const tableFile = join(import.meta.dirname, "..", "..", "docs", "conformance.md");

const pictures = await startScriptedUpstream(bodyAnswer(png, "image/png"));
const cases = casesOf(pictures.origin);

const recorder = await startRecorder();
const settings = [...new Set(cases.map((one) => one.settings ?? ""))];
const short: Record<ConversationDialect, string> = {
  "openai-chat": "C",
  "openai-responses": "R",
  "anthropic-messages": "A",
  gemini: "G",
};
const modelOf = (upstream: ConversationDialect, one: Case) => `${upstream}-${settings.indexOf(one.settings ?? "")}`;
const line = (id: string, upstream: ConversationDialect, setting = "", more = "") =>
  `  - { id: ${id}, retries: 0, outputTokensMax: 8192, ${more}prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: ${upstream}, model: "sim-text;rate=0;first=0;${setting}" }] }`;
const models = [
  ...conversationDialects.flatMap((upstream) =>
    settings.map((setting, place) => line(`${upstream}-${place}`, upstream, setting)),
  ),
  line("completing", "openai-chat", "", "traits: { completions: true }, "),
];
const upstreams = conversationDialects.map(
  (dialect) =>
    `  ${dialect}: { dialect: ${dialect}, circuitBreakerFailuresMax: 0, baseUrl: "${recorder.url}/${dialect === "gemini" ? "v1beta" : "v1"}" }`,
);
const gateway = await startGateway({
  catalogue: `groups: { default: { models: ["*"] } }\nupstreams:\n${upstreams.join("\n")}\nmodels:\n${models.join("\n")}\n`,
  environment: { ATTACHMENT_NETWORKS: "127.0.0.0/8" },
});
recorder.forwardTo(gateway.simulatorUrl);
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await recorder[Symbol.asyncDispose]();
  await pictures[Symbol.asyncDispose]();
});

interface Exchange {
  answer: Observed;
  /** The caller's response, and the upstream's request. */
  text: string;
  upstreamRequest: string;
  body: Record<string, unknown>;
}

async function ask(caller: Caller, path: string, body: Record<string, unknown>, streams: boolean): Promise<Exchange> {
  recorder.forget();
  const response = await fetch(`${gateway.url}${path}`, {
    method: "POST",
    headers: { "x-api-key": gateway.key, "content-type": "application/json", "anthropic-version": "2023-06-01" },
    body: JSON.stringify(body),
  });
  // Google's older clients detect a failure only by a broken connection.
  const text = await textOf(response);
  const isStream = (response.headers.get("content-type") ?? "").startsWith("text/event-stream");
  assert.equal(isStream, streams && response.status === 200);
  return {
    answer: isStream ? caller.readStream(text) : caller.readWhole(response.status, text),
    text,
    upstreamRequest: recorder.last(),
    body,
  };
}

async function textOf(response: Response): Promise<string> {
  const parts: Buffer[] = [];
  try {
    for await (const part of response.body as ReadableStream<Uint8Array>) parts.push(Buffer.from(part));
  } catch {
    assert.equal(response.status, 200);
  }
  return Buffer.concat(parts).toString("utf8");
}

/** Ids and times differ from run to run. */
const settled = (text: string) =>
  text
    .replaceAll(
      /"(id|response_id|responseId|item_id|call_id|request_id)":"((?:[a-z]+_)+|chatcmpl-|)[0-9a-z]{8,}(_\d+)?"/g,
      '"$1":"$2…$3"',
    )
    .replaceAll(/"(created|created_at|completed_at)":\d+/g, '"$1":0')
    .replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1");

type Result = "yes" | "refused" | "unsaid";
const results = new Map<string, Result>();
const golden = new Map<string, string[]>();

async function play(
  callerDialect: ConversationDialect,
  upstream: ConversationDialect,
  one: Case,
  streams: boolean,
): Promise<Result> {
  if (one.unsaid?.includes(callerDialect)) return "unsaid";
  const caller = callers[callerDialect];
  const { path, body } = caller.requestOf(one.ask, modelOf(upstream, one), streams);
  let exchange = await ask(caller, path, body, streams);
  if (one.refused?.(callerDialect, upstream)) {
    assert.equal(exchange.answer.error?.status, 400, exchange.text);
    assert.ok(exchange.answer.error.field, `a field is named: ${exchange.text}`);
    assert.equal(exchange.upstreamRequest, "", "no upstream is asked");
    return "refused";
  }
  if (one.results !== undefined) {
    assert.equal(exchange.answer.error, undefined, exchange.text);
    assert.equal(exchange.answer.finish, "calls", exchange.text);
    exchange = await ask(caller, path, caller.withResults(exchange.body, exchange.answer, one.results), streams);
  }
  try {
    one.expect(exchange.answer, upstream, callerDialect);
  } catch (error) {
    throw new Error(
      `${(error as Error).message}\n\nthe upstream was asked: ${exchange.upstreamRequest}\n\nthe caller got: ${exchange.text}`,
      { cause: error },
    );
  }
  if (one.golden) {
    const file = `${callerDialect}--${upstream}.md`;
    const mode = streams ? "streamed" : "whole";
    const sections = golden.get(file) ?? [`# A caller of ${callerDialect}, an upstream of ${upstream}`];
    sections.push(
      `## ${one.name}, ${mode}\n\nThe upstream is asked:\n\n\`\`\`\n${settled(exchange.upstreamRequest)}\n\`\`\`\n\nThe caller gets:\n\n\`\`\`\n${settled(exchange.text).trimEnd()}\n\`\`\``,
    );
    golden.set(file, sections);
  }
  return "yes";
}

for (const caller of conversationDialects)
  for (const upstream of conversationDialects)
    test(`${caller} from ${upstream}`, async (context) => {
      for (const one of cases)
        for (const streams of one.streamOnly ? [true] : [false, true])
          await context.test(`${one.name}, ${streams ? "streamed" : "whole"}`, async () => {
            results.set(`${one.name} ${caller} ${upstream}`, await play(caller, upstream, one, streams));
          });
    });

/** The models of the operations' table, with the heads of their columns. */
const operationModels = {
  "C, completions": "completing",
  ...Object.fromEntries(conversationDialects.map((dialect) => [short[dialect], `${dialect}-${settings.indexOf("")}`])),
};

async function operate({ path, request, expect }: OperationCase, model: string): Promise<Result> {
  recorder.forget();
  const isForm = request instanceof FormData;
  if (isForm) request.set("model", model);
  const response = await fetch(`${gateway.url}${path}`, {
    method: "POST",
    headers: { "x-api-key": gateway.key, ...(!isForm && { "content-type": "application/json" }) },
    body: isForm ? request : JSON.stringify({ model, ...request }),
  });
  const body = Buffer.from(await response.arrayBuffer());
  if (response.status === 400) {
    assert.ok(JSON.parse(body.toString()).error.param, body.toString());
    assert.equal(recorder.last(), "", "no upstream is asked");
    return "refused";
  }
  assert.equal(response.status, 200, body.toString());
  expect(response, body);
  return "yes";
}

for (const [head, model] of Object.entries(operationModels))
  test(`operations from ${head}`, async (context) => {
    for (const one of operationCases)
      await context.test(one.name, async () => {
        results.set(`${one.name} ${head}`, await operate(one, model));
      });
  });

const marks: Record<Result, string> = { yes: "✓", refused: "400", unsaid: "–" };

const tableOf = (rows: readonly string[][]): string =>
  rows
    .toSpliced(
      1,
      0,
      (rows[0] ?? []).map((_, place) => (place === 0 ? "---" : ":-:")),
    )
    .map((row) => `| ${row.join(" | ")} |`)
    .join("\n");

function operationsTable(): string {
  const columns = Object.keys(operationModels);
  const rows = operationCases.map(({ name }) => [
    name,
    ...columns.map((head) => marks[results.get(`${name} ${head}`) ?? "yes"]),
  ]);
  return tableOf([["case", ...columns], ...rows]);
}

function table(): string {
  const pairs = conversationDialects.flatMap((caller) =>
    conversationDialects.map((upstream) => ({ caller, upstream })),
  );
  const rows = cases.map(({ name }) => [
    name,
    ...pairs.map(({ caller, upstream }) => marks[results.get(`${name} ${caller} ${upstream}`) ?? "yes"]),
  ]);
  const heads = ["case", ...pairs.map(({ caller, upstream }) => `${short[caller]}←${short[upstream]}`)];
  return tableOf([heads, ...rows]);
}

test("the published table and the golden files match the results", () => {
  const page = `# Conformance\n\nGenerated by \`npm run conformance\`; \`npm test\` compares. Caller ← upstream: C is openai-chat, R openai-responses, A anthropic-messages, G gemini. Each case runs\nwhole and streamed through real processes against the simulator, which checks requests as strictly as the real service (signatures, pairing of calls and results,\nrequired fields). ✓: the answer is valid in the caller's dialect. 400: the upstream's dialect does not support it, and the error names the field. –: the caller's\ndialect cannot express it. test/conformance/golden has the bytes of every upstream request and every caller's response.\n\n${table()}\n\n## Other operations\n\nOn the paths of OpenAI's clients, by the upstream's dialect. Completions are answered as conversations, unless the model's \`traits\` say that its upstream has\nOpenAI's endpoint for them (the first column). 400: the upstream has no such operation, and the error names the field.\n\n${operationsTable()}\n`;
  if (writes) {
    mkdirSync(goldenFolder, { recursive: true });
    for (const [file, sections] of golden) writeFileSync(join(goldenFolder, file), `${sections.join("\n\n")}\n`);
    writeFileSync(tableFile, page);
  }
  assert.equal(readFileSync(tableFile, "utf8"), page);
  for (const [file, sections] of golden)
    assert.equal(readFileSync(join(goldenFolder, file), "utf8"), `${sections.join("\n\n")}\n`, file);
});
