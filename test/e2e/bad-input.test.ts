/**
 * Every field of every endpoint with the wrong type, out of range, missing or contradictory: the
 * error names the field in the endpoint's own format, whichever upstream serves the model.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { startClientsGateway } from "../clients/support.ts";
import { isLong } from "../support/long.ts";
import { countTokens, messages } from "./bad-input/anthropic.ts";
import { countContent, generateContent, streamGenerateContent } from "./bad-input/google.ts";
import { type Mutation, mutationsOf, without, withValue } from "./bad-input/mutations.ts";
import { chatCompletions, inputTokens, responses } from "./bad-input/openai.ts";
import type { Body, RichRequest } from "./bad-input/rich-request.ts";
import {
  batchEmbedContents,
  completions,
  embedContent,
  embeddings,
  imageGenerations,
  moderations,
  rerank,
  speech,
} from "./bad-input/short.ts";

const gateway = await startClientsGateway();
after(() => gateway[Symbol.asyncDispose]());

const endpoints: Record<string, RichRequest> = {
  "chat completions": chatCompletions,
  responses,
  "responses, counted": inputTokens,
  messages,
  "messages, counted": countTokens,
  generateContent,
  streamGenerateContent,
  countTokens: countContent,
  embeddings,
  embedContent,
  batchEmbedContents,
  "image generations": imageGenerations,
  completions,
  moderations,
  rerank,
  speech,
};

interface Answer {
  status: number;
  text: string;
}

async function post(path: string, body: Body): Promise<Answer> {
  const response = await fetch(`${gateway.url}${path}`, {
    method: "POST",
    headers: { "x-api-key": gateway.key, "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(20_000),
  });
  return { status: response.status, text: await response.text() };
}

/** The field that a 400 names; fails where its body is not the dialect's. */
function fieldIn(text: string, dialect: ConversationDialect): string {
  const { error, ...others } = JSON.parse(text);
  assert.equal(typeof error.message, "string");
  switch (dialect) {
    case "openai-chat":
    case "openai-responses":
      assert.deepEqual(
        [error.type, Object.keys(error)],
        ["invalid_request_error", ["message", "type", "param", "code"]],
      );
      return error.param ?? "";
    case "anthropic-messages":
      assert.deepEqual([error.type, others.type], ["invalid_request_error", "error"]);
      assert.match(others.request_id, /^req_/);
      return /^[`']?([a-z_]+[\w.[\]]*)/.exec(error.message)?.[1] ?? "";
    case "gemini":
      assert.deepEqual([error.code, error.status], [400, "INVALID_ARGUMENT"]);
      return error.details?.[0]?.fieldViolations?.[0]?.field ?? "";
    default:
      return dialect satisfies never;
  }
}

/** Each vendor writes paths in a way of its own. */
const plain = (path: string) =>
  path.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()).replace(/\.(\d+)(?=\.|$)/g, "[$1]");
const parentOf = (path: string) => path.replace(/(^|\.)[^.[\]]*$|\[\d+\]$/, "");

/** Pairs of fields that contradict each other: an error may name either. */
const partners: readonly [RegExp, RegExp][] = [
  [/(^|\.)tools(\[0\]\.(functionDeclarations|function\.name))?$/, /(^|\.)tool_?[cC]ho?o?[a-zA-Z]*|toolConfig/],
  [/^logprobs$/, /^topLogprobs$/],
  [/^topLogprobs$/, /^logprobs$/],
  [/^thinking$/, /^maxTokens$/],
  [/^generateContentRequest$/, /^contents$/],
  // A call and its result.
  [
    /^(messages|input|(generateContentRequest\.)?contents)\[\d\]/,
    /^(messages|input|(generateContentRequest\.)?contents)(\[\d\]|$)/,
  ],
];

/** True if the error names the changed field, a field in it, its parent, or a neighbour. */
function isNamed(field: string, path: string): boolean {
  const [named, changed] = [plain(field), plain(path)];
  if (named === "") return false;
  const parent = parentOf(changed);
  if (named.startsWith(changed) || changed.startsWith(named) || (parent !== "" && named.startsWith(parent)))
    return true;
  return partners.some(([one, other]) => one.test(changed) && other.test(named));
}

async function check(
  endpoint: RichRequest,
  model: string,
  { kind, path, value, body }: Mutation,
  mustFail: boolean,
): Promise<void> {
  const { status, text } = await post(endpoint.pathOf(model), body);
  const what = `${path} ${kind === "missing" ? "is missing" : `= ${JSON.stringify(value).slice(0, 80)}`}, answered ${status} ${text.slice(0, 400)}`;
  if (status === 200) return assert.ok(!mustFail, what);
  // Without its type, an item only names a stored one.
  assert.equal(
    status,
    endpoint.dialect === "openai-responses" && /^input\[\d+\]\.type$/.test(path) && status === 404 ? 404 : 400,
    what,
  );
  assert.ok(isNamed(fieldIn(text, endpoint.dialect), path), what);
}

/** Runs them side by side; fails with all that failed. */
async function all(checks: readonly (() => Promise<void>)[]): Promise<void> {
  const waiting = checks.values();
  const faults: string[] = [];
  const run = async () => {
    for (const next of waiting) await next().catch((error) => faults.push((error as Error).message));
  };
  await Promise.all(Array.from({ length: 24 }, run));
  assert.equal(faults.length, 0, `${faults.length} of ${checks.length}:\n${faults.slice(0, 20).join("\n")}`);
}

/**
 * `npm test` asks the first two models of each endpoint: one whose upstream has the endpoint's
 * format, which gets every other change, and one that is translated, which gets every fourth.
 */
for (const [name, endpoint] of Object.entries(endpoints))
  for (const [place, model] of endpoint.models.slice(0, isLong ? undefined : 2).entries())
    test(`${name} of ${model}`, async () => {
      const { opaque, alsoGood, outOfRange, unsuitable = [], readHere } = endpoint;
      const isOwn = place === 0;
      const rich = endpoint.bodyOf(model);
      const body = without(rich, endpoint.without?.[model] ?? []);
      const { status, text } = await post(endpoint.pathOf(model), body);
      assert.equal(status, 200, text);
      const checks: (() => Promise<void>)[] = [];
      // Types are looked at before an upstream is: the second is tried with fewer, the others with
      // none. Endpoints with two models alone share their fields with others.
      const wrongTypes = (readHere !== undefined ? [1, 2] : endpoint.models.length > 2 ? [2, 1] : [1, 0])[place] ?? 0;
      const mutations = [...mutationsOf(body, wrongTypes, place < 2)];
      const played = isLong ? mutations : mutations.filter((_, index) => index % (isOwn ? 2 : 4) === 0);
      for (const mutation of played) {
        const isChecked = !isOwn || readHere === undefined || readHere.test(mutation.path);
        const mustFail = isChecked && mutation.kind === "type" && !alsoGood?.test(`${mutation.path} ${mutation.type}`);
        if (!opaque?.test(mutation.path)) checks.push(() => check(endpoint, model, mutation, mustFail));
      }
      const mustBeInRange = !isOwn || readHere === undefined;
      for (const [path, ...values] of outOfRange)
        for (const value of values)
          checks.push(() => check(endpoint, model, withValue(body, path, value), mustBeInRange));
      for (const [path, ...values] of unsuitable)
        for (const value of values) checks.push(() => check(endpoint, model, withValue(body, path, value), !isOwn));
      await all(checks);
    });
