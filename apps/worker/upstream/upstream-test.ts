/**
 * Tests an upstream for operators: reads its list of models, which costs nothing, and calls a model
 * if the test names one. Follows no redirects; addresses of clouds' metadata are refused.
 */
import type { CatalogueUpstream } from "#catalogue/catalogue.ts";
import { openCredential, referenceOf } from "#catalogue/credentials.ts";
import { credentialNamesOf, secretOf } from "#catalogue/environment.ts";
import {
  checkedUpstreamOf,
  type OfferedModel,
  type TestedCall,
  type TestOutcome,
  typedCredentialName,
  type UpstreamTest,
  type UpstreamTestResult,
} from "#catalogue/upstream-test.ts";
import { apiVersion } from "#dialects/anthropic-messages/request.ts";
import { codecs } from "#dialects/codecs.ts";
import { modelTraitsOf } from "#dialects/neutral/model-traits.ts";
import { foldedOf } from "#dialects/neutral/neutral.ts";
import type { Clock } from "#service/clock.ts";
import { Unreachable } from "#service/public-agent.ts";
import { parsedObject } from "#wire/json/parse.ts";
import {
  testAnswerBytesMax,
  testAnswerMs,
  testListBytesMax,
  testListMs,
  testMessageLengthMax,
  testModelsMax,
} from "../bounds.ts";
import { createAuthorization } from "./authorization.ts";
import { UnusableCredential, Upstreams } from "./upstreams.ts";

export interface UpstreamTestDeps {
  /** Contains credentials and proxies. */
  environment: Record<string, string | undefined>;
  /** The values of CREDENTIALS_SECRET now. */
  secrets(): readonly string[];
  clock: Clock;
}

interface Called {
  tested: TestedCall;
  /** The body, or its beginning. */
  text: string;
}

/** Never rejects. */
export async function testUpstream(
  { upstream: entry, sealed, model }: UpstreamTest,
  { environment, secrets, clock }: UpstreamTestDeps,
): Promise<UpstreamTestResult> {
  const failedBy = (outcome: TestOutcome, message: string): UpstreamTestResult => ({
    list: { outcome, status: null, latencyMs: 0, message, models: [] },
  });
  let upstream: CatalogueUpstream | undefined;
  const own = { ...environment };
  const reference = referenceOf(typedCredentialName);
  if (sealed !== undefined) {
    const value = openCredential(secrets(), typedCredentialName, sealed);
    if (value === undefined)
      return failedBy(
        "unreadable",
        "CREDENTIALS_SECRET of the worker is not that of control, so it cannot open the credential.",
      );
    own[reference] = value;
  }
  try {
    upstream = checkedUpstreamOf(entry, environment);
  } catch (error) {
    return failedBy("request-refused", (error as Error).message);
  }
  if (upstream === undefined)
    return failedBy("request-refused", "The variable that the upstream `requires` is not set.");
  const credential = sealed === undefined ? credentialNamesOf(upstream)[0] : reference;
  const value = secretOf(credential, own);
  if (credential !== undefined && value === undefined && upstream.authentication !== "google")
    return failedBy("credential-refused", `The worker has no credential ${credential}.`);
  await using upstreams = new TestedUpstream(upstream, { credential, environment: own, clock, value });
  const list = await upstreams.list();
  if (model === undefined || list.outcome === "credential-refused" || list.outcome === "address-refused")
    return { list };
  return { list, call: await upstreams.answer(model) };
}

class TestedUpstream implements AsyncDisposable {
  readonly #upstream: CatalogueUpstream;
  readonly #credential: string | undefined;
  readonly #value: string | undefined;
  readonly #upstreams: Upstreams;
  readonly #clock: Clock;

  constructor(
    upstream: CatalogueUpstream,
    options: Pick<UpstreamTestDeps, "environment" | "clock"> & {
      credential: string | undefined;
      value: string | undefined;
    },
  ) {
    this.#upstream = upstream;
    this.#credential = options.credential;
    this.#value = options.value;
    this.#clock = options.clock;
    this.#upstreams = new Upstreams(createAuthorization(options.environment), options.environment, options.clock);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#upstreams.close();
  }

  async list(): Promise<UpstreamTestResult["list"]> {
    const { dialect } = this.#upstream;
    const size = dialect === "anthropic-messages" ? "?limit=1000" : dialect === "gemini" ? "?pageSize=1000" : "";
    const headers: Record<string, string> = dialect === "anthropic-messages" ? { "anthropic-version": apiVersion } : {};
    const bounds = { timeoutMs: testListMs, bytesMax: testListBytesMax };
    const { tested, text } = await this.#call({ method: "GET", path: `/models${size}`, headers }, bounds);
    if (tested.outcome !== "ok") return { ...tested, models: [] };
    const models = modelsIn(text);
    if (models !== undefined) return { ...tested, models };
    return { ...tested, outcome: "unreadable", message: "The answer is no list of models.", models: [] };
  }

  async answer(model: string): Promise<NonNullable<UpstreamTestResult["call"]>> {
    const { dialect, streamUsage, tokenLimitField } = this.#upstream;
    if (dialect === "openai-images") {
      const message = "Models for images are not called: their answers cost too much for a test.";
      return { outcome: "request-refused", status: null, latencyMs: 0, message, answer: null };
    }
    const codec = codecs[dialect];
    const traits = modelTraitsOf(dialect, model);
    const body = { model, messages: [{ role: "user", content: "Say hello." }], max_completion_tokens: 512 };
    const request = codecs["openai-chat"].decodeRequest({ body, framing: "whole" });
    const target = { model, traits, outputTokensMax: undefined, streamUsage, tokenLimitField };
    const wire = codec.encodeRequest(request, "whole", target);
    const bounds = { timeoutMs: testAnswerMs, bytesMax: testAnswerBytesMax };
    const { tested, text } = await this.#call({ method: "POST", ...wire }, bounds);
    if (tested.outcome !== "ok") return { ...tested, answer: null };
    const answer = parsedObject(Buffer.from(text));
    const folded = answer && foldedOf(codec.decodeAnswer(answer));
    if (folded === undefined)
      return { ...tested, outcome: "unreadable", message: "The answer is not one of this dialect.", answer: null };
    if ("error" in folded)
      return { ...tested, outcome: "upstream-failed", message: this.#shown(folded.error.message), answer: null };
    const parts = folded.blocks.flatMap((block) => (block.kind === "text" ? [block.text] : []));
    return { ...tested, answer: this.#shown(parts.join("")) };
  }

  async #call(
    request: { method: "GET" | "POST"; path: string; headers?: Record<string, string> | undefined; body?: Buffer },
    bounds: { timeoutMs: number; bytesMax: number },
  ): Promise<Called> {
    const startedAt = this.#clock.now();
    const latency = () => Math.round(this.#clock.now() - startedAt);
    try {
      const options = { ...request, ...bounds };
      const { status, text } = await this.#upstreams.request(this.#upstream, this.#credential, options);
      const outcome = outcomeOf(status, text);
      const message = outcome === "ok" ? null : this.#shown(messageIn(text));
      return { tested: { outcome, status, latencyMs: latency(), message }, text };
    } catch (error) {
      const outcome = transportOutcomeOf(error);
      const message = this.#shown(textOf(error));
      return { tested: { outcome, status: null, latencyMs: latency(), message }, text: "" };
    }
  }

  /** Vendors repeat keys in their errors. */
  #shown(text: string): string {
    const isLong = this.#value !== undefined && this.#value.length > 3;
    return (isLong ? text.replaceAll(this.#value as string, "…") : text).slice(0, testMessageLengthMax);
  }
}

function outcomeOf(status: number, text: string): TestOutcome {
  if (status >= 200 && status < 300) return "ok";
  // z.ai reports an empty balance as 429: https://docs.z.ai/api-reference/api-code
  if (status === 402 || (status === 429 && /"code"\s*:\s*"?1113\b|insufficient_quota|insufficient.balance/i.test(text)))
    return "no-balance";
  if (status === 401) return "credential-refused";
  // Google refuses a wrong key with 400.
  if (status === 400 && /API_KEY_INVALID|API key not valid/.test(text)) return "credential-refused";
  if (status === 403) return "no-access";
  if (status === 404 || status === 405 || (status >= 300 && status < 400)) return "not-found";
  if (status === 429) return "rate-limited";
  return status >= 500 ? "upstream-failed" : "request-refused";
}

/** The vendor's words in the body of an error. */
function messageIn(text: string): string {
  const body = parsedObject(Buffer.from(text));
  if (body === undefined) return text.replaceAll(/<[^>]*>|\s+/g, " ").trim();
  return codecs["openai-chat"].upstreamErrorOf(body).message;
}

const errorOf = (error: unknown): NodeJS.ErrnoException => {
  const { cause } = error as Error;
  return (cause instanceof Error ? cause : error) as NodeJS.ErrnoException;
};
const textOf = (error: unknown): string => `${errorOf(error).code ?? errorOf(error).name}: ${errorOf(error).message}`;

function transportOutcomeOf(error: unknown): TestOutcome {
  if (error instanceof Unreachable || errorOf(error) instanceof Unreachable) return "address-refused";
  if (error instanceof UnusableCredential) return "credential-refused";
  const { code = "", name } = errorOf(error);
  if (name === "TimeoutError" || code === "UND_ERR_CONNECT_TIMEOUT") return "timeout";
  if (/CERT|^(?:UNABLE_TO_|ERR_TLS_|ERR_SSL_|HOSTNAME_MISMATCH|EPROTO)/.test(code)) return "untrusted";
  return "unreachable";
}

const numberOf = (...values: unknown[]): number | null =>
  values.find((value): value is number => typeof value === "number" && Number.isInteger(value) && value > 0) ?? null;

/**
 * The lists of OpenAI, Anthropic and Google, and of servers with the same; some send the bare
 * array. Undefined for anything else.
 */
function modelsIn(text: string): OfferedModel[] | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const { data, models } = Object(value) as { data?: unknown; models?: unknown };
  const list = [value, data, models].find((each): each is unknown[] => Array.isArray(each));
  return list?.slice(0, testModelsMax).flatMap((item) => {
    const each = Object(item) as Record<string, unknown>;
    const name = each.id ?? each.name;
    if (typeof name !== "string" || name === "") return [];
    const { contextWindow, outputTokensMax } = limitsIn(each);
    return [{ name: name.replace(/^models\//, "").slice(0, 256), contextWindow, outputTokensMax }];
  });
}

/** OpenRouter, vLLM, Groq, Mistral and Google state limits, each in fields of its own. */
function limitsIn(model: Record<string, unknown>): Omit<OfferedModel, "name"> {
  const { context_length, max_model_len, context_window, max_context_length, inputTokenLimit } = model;
  const { max_completion_tokens } = Object(model.top_provider) as Record<string, unknown>;
  return {
    contextWindow: numberOf(context_length, max_model_len, context_window, max_context_length, inputTokenLimit),
    outputTokensMax: numberOf(max_completion_tokens, model.max_completion_tokens, model.outputTokenLimit),
  };
}
