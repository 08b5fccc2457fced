/** The charge of a caller that leaves in the middle of an answer. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { hashOf } from "#access/key.ts";
import { revokeRecord } from "#access/projection.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { nanoPerUnit } from "#ledger/money.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { SseReader } from "#wire/sse.ts";
import { startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";
import { subjectOf } from "./support.ts";

/**
 * Each answer stops after a known number of tokens and never ends, so that a caller has read all
 * there is when it leaves.
 */
const models = {
  /** Twenty events of 4,096 bytes. */
  chunky: "sim-text;rate=0;first=0;tokens=5000;size=4096;stall=20;reasoning=0;usage=never",
  words: "sim-text;rate=0;first=0;tokens=5000;stall=300;reasoning=0",
  /** Thinks for 500 tokens, then says one. */
  thinker: "sim-text;rate=0;first=0;tokens=5000;reasoning=500;stall=501",
  thinking: "sim-text;rate=0;first=0;tokens=5000;reasoning=500;stall=500",
  counted: "sim-text;rate=0;first=0;tokens=5000;size=4096;stall=20;usage=every;reasoning=0",
  uncounted: "sim-text;rate=0;first=0;tokens=50;size=4096;usage=never;reasoning=0",
  silent: "sim-text;first=60000;early-opening",
  headless: "sim-text;head=60000",
};

/** A token costs 1, so that money counts tokens. */
const prices = "prices: { inputPerMillion: 1000000, cachedInputPerMillion: 1000000, outputPerMillion: 1000000 }";
const lines = Object.entries(models).flatMap(([name, model]) =>
  conversationDialects.map(
    (dialect) =>
      `  - { id: ${name}-${dialect}, ${prices}, retries: 0, route: [{ upstream: ${dialect}, model: "${model}" }] }`,
  ),
);
const upstreams = conversationDialects.map(
  (dialect) =>
    `  ${dialect}: { dialect: ${dialect}, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/${dialect === "gemini" ? "v1beta" : "v1"}" }`,
);
const gateway = await startGateway({
  workers: ["chat=256"],
  environment: { KEEP_ALIVE_MS: "1000" },
  catalogue: `groups:
  default: { models: ["*"] }
  paying: { models: ["*"], keyLimits: { budgetPerDay: 1000000 } }
upstreams:
${upstreams.join("\n")}
queues:
  doomed: {}
models:
  - { id: falling-back, ${prices}, retries: 0, fallbacks: [cheap], route: [{ upstream: openai-chat, model: "sim-text;status=500" }] }
  - { id: cheap, prices: { inputPerMillion: 500000, outputPerMillion: 500000 }, retries: 0, route: [{ upstream: openai-chat, model: "${models.chunky}" }] }
  - { id: doomed, queue: doomed, ${prices}, retries: 0, route: [{ upstream: openai-chat, model: "${models.chunky}" }] }
${lines.join("\n")}
`,
});
const redis = await connectRedis(gateway.redis.url, "request");
after(async () => {
  redis.disconnect();
  await gateway[Symbol.asyncDispose]();
});
const keyspace = keyspaceOf("sluice");

/** A key's spending, once none of its requests runs. */
async function spentBy(key: string): Promise<number> {
  const ended = async () => (await redis.zcard(keyspace.limit("key", subjectOf(key), "running"))) === 0;
  await until("nothing runs", ended);
  return Number(await redis.hget(keyspace.limit("key", subjectOf(key), "budget"), "dayNano")) / nanoPerUnit;
}

function requestOf(dialect: ConversationDialect, model: string, more: object = {}): { path: string; body: object } {
  const prompt = "hello";
  switch (dialect) {
    case "openai-chat":
      return {
        path: "/v1/chat/completions",
        body: { model, stream: true, messages: [{ role: "user", content: prompt }], ...more },
      };
    case "openai-responses":
      return {
        path: "/v1/responses",
        body: { model, stream: true, input: prompt, reasoning: { effort: "low", summary: "auto" }, ...more },
      };
    case "anthropic-messages": {
      const thinking = { type: "enabled", budget_tokens: 1_024 };
      return {
        path: "/v1/messages",
        body: {
          model,
          stream: true,
          max_tokens: 10_000,
          thinking,
          messages: [{ role: "user", content: prompt }],
          ...more,
        },
      };
    }
    case "gemini": {
      const generationConfig = { thinkingConfig: { includeThoughts: true } };
      const path = `/v1beta/models/${model}:streamGenerateContent?alt=sse`;
      return { path, body: { contents: [{ role: "user", parts: [{ text: prompt }] }], generationConfig, ...more } };
    }
    default:
      return dialect satisfies never;
  }
}

/** The text in an event of a stream, without thinking. */
function textIn(dialect: ConversationDialect, event: unknown): string {
  switch (dialect) {
    case "openai-chat": {
      const { choices = [] } = event as { choices?: { delta: { content?: string } }[] };
      return choices.map(({ delta }) => delta.content ?? "").join("");
    }
    case "openai-responses": {
      const { type, delta } = event as { type: string; delta?: string };
      return type === "response.output_text.delta" ? (delta ?? "") : "";
    }
    case "anthropic-messages": {
      return (event as { delta?: { text?: string } }).delta?.text ?? "";
    }
    case "gemini": {
      const { candidates = [] } = event as {
        candidates?: { content?: { parts?: { text?: string; thought?: boolean }[] } }[];
      };
      return candidates
        .flatMap(({ content }) => (content?.parts ?? []).map(({ text, thought }) => (thought ? "" : (text ?? ""))))
        .join("");
    }
    default:
      return dialect satisfies never;
  }
}

interface Stream {
  status(): Promise<number>;
  /** Reads until so many bytes of text have come. */
  read(textBytes: number): Promise<void>;
  /** Reads until so many signs of life have come, of a stream that says nothing else. */
  readKeepAlives(count: number): Promise<void>;
  /** Reads what there is, until two signs of life have come one after the other. */
  readUntilQuiet(): Promise<void>;
  rest(): Promise<void>;
  leave(): void;
}

async function open(key: string, dialect: ConversationDialect, model: string, more: object = {}): Promise<Stream> {
  const { path, body } = requestOf(dialect, model, more);
  const leaving = new AbortController();
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const pending = fetch(`${gateway.url}${path}`, {
    method: "POST",
    headers,
    body: JSON.stringify(body),
    signal: leaving.signal,
  });
  pending.catch(() => undefined);
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  const events = new SseReader(1 << 24);
  const next = async () => {
    if (reader === undefined) {
      const response = await pending;
      assert.equal(response.status, 200);
      reader = response.body?.getReader();
    }
    return (await reader?.read())?.value;
  };
  return {
    status: async () => (await pending).status,
    async read(textBytes) {
      for (let count = 0; count < textBytes; ) {
        const chunk = await next();
        assert.ok(chunk, `ended after ${count} of ${textBytes} bytes`);
        for (const { data } of events.push(Buffer.from(chunk)))
          if (data.toString() !== "[DONE]") count += Buffer.byteLength(textIn(dialect, JSON.parse(data.toString())));
      }
    },
    async readKeepAlives(count) {
      for (let seen = 0; seen < count; ) {
        const text = String(Buffer.from((await next()) ?? []));
        assert.match(text, /^\n+$/);
        seen += text.length;
      }
    },
    async readUntilQuiet() {
      for (let seen = 0; seen < 2; )
        seen = /^\n+$|^event: (?:ping|keepalive)\n/.test(String(Buffer.from((await next()) ?? []))) ? seen + 1 : 0;
    },
    async rest() {
      // A chat stream breaks after its error event.
      await (async () => {
        while ((await next()) !== undefined);
      })().catch(() => undefined);
    },
    leave: () => leaving.abort(),
  };
}

/**
 * Upstreams for a caller: its own dialect, which is relayed as it comes, and one that is
 * translated.
 */
const upstreamsOf = (dialect: ConversationDialect) =>
  [dialect, dialect === "openai-chat" ? "anthropic-messages" : "openai-chat"] as const;

/** The cost for a caller that reads so many bytes of text and leaves. */
async function paidFor(
  dialect: ConversationDialect,
  model: string,
  textBytes: number,
  more: object = {},
): Promise<number> {
  const key = await gateway.createKey("paying");
  const stream = await open(key, dialect, model, more);
  await stream.read(textBytes);
  stream.leave();
  return spentBy(key);
}

/** More than any prompt here takes. */
const inputTokensMax = 100;

for (const dialect of conversationDialects)
  for (const upstream of upstreamsOf(dialect)) {
    const pair = `${dialect} caller, ${upstream} upstream`;

    test(`${pair}: a caller that reads 80 KB of a long answer and leaves pays for 80 KB`, async () => {
      const bytes = 20 * 4_096;
      const paid = await paidFor(dialect, `chunky-${upstream}`, bytes);
      assert.ok(paid >= bytes / 4 && paid <= (1.1 * bytes) / 4 + inputTokensMax, `${paid} for ${bytes / 4} tokens`);
    });

    test(`${pair}: a caller that reads 300 words and leaves pays about what 300 words cost in a complete answer`, async () => {
      const paid = await paidFor(dialect, `words-${upstream}`, 1_500);
      assert.ok(paid >= 270 && paid <= 1.5 * 300 + inputTokensMax, `${paid} for 300 tokens`);
    });

    test(`${pair}: thinking before the first word is charged`, async () => {
      const key = await gateway.createKey("paying");
      const stream = await open(key, dialect, `thinker-${upstream}`);
      // The thinking may be shown or not; behind it comes the one word.
      await stream.read(1);
      stream.leave();
      const paid = await spentBy(key);
      assert.ok(paid >= 500 && paid <= 1.5 * 501 + inputTokensMax, `${paid} for 501 tokens`);
    });
  }

test("a caller that leaves before the first word pays for the thinking so far, shown or not", async () => {
  for (const [dialect, upstream] of [
    ["anthropic-messages", "openai-chat"],
    ["openai-chat", "anthropic-messages"],
  ] as const) {
    const key = await gateway.createKey("paying");
    const stream = await open(key, dialect, `thinking-${upstream}`);
    await stream.readUntilQuiet();
    stream.leave();
    const paid = await spentBy(key);
    assert.ok(paid >= 500 && paid <= 1.5 * 500 + inputTokensMax, `${dialect}, ${upstream}: ${paid} for 500 tokens`);
  }
});

test("an upstream's own count is charged if each event has it", async () => {
  for (const upstream of ["openai-chat", "gemini"] as const) {
    const paid = await paidFor("openai-chat", `counted-${upstream}`, 20 * 4_096);
    assert.ok(paid >= 20 && paid <= 20 + inputTokensMax, `${upstream}: ${paid} for 20 tokens`);
  }
});

test("all choices of an answer are charged", async () => {
  // The 300 words are spread over the three.
  const paid = await paidFor("openai-chat", "words-openai-chat", 1_500, { n: 3 });
  assert.ok(paid >= 270 && paid <= 1.5 * 300 + inputTokensMax, `${paid} for 300 tokens`);
});

test("an answer of a fallback is charged at the fallback's prices", async () => {
  const paid = await paidFor("openai-chat", "falling-back", 20 * 4_096);
  assert.ok(paid >= 10 * 1_024 && paid <= 10 * 1_024 + inputTokensMax, `${paid} for ${20 * 1_024} tokens`);
});

test("an answer without an upstream count is charged by its length", async () => {
  const key = await gateway.createKey("paying");
  await (await open(key, "openai-chat", "uncounted-openai-chat")).rest();
  const paid = await spentBy(key);
  assert.ok(paid >= 50 * 1_024 && paid <= 50 * 1_024 + inputTokensMax, `${paid} for ${50 * 1_024} tokens`);
});

test("a caller that leaves pays nothing before the upstream answers, and the input before the first word", async () => {
  const prompt = { messages: [{ role: "user", content: "x".repeat(4_000) }] };
  for (const [model, least, most] of [
    ["headless", 0, 0],
    ["silent", 1_000, 1_100],
  ] as const) {
    const key = await gateway.createKey("paying");
    const stream = await open(key, "openai-chat", `${model}-openai-chat`, prompt);
    await stream.readKeepAlives(2);
    stream.leave();
    const paid = await spentBy(key);
    assert.ok(paid >= least && paid <= most, `${model}: ${paid}`);
  }
});

test("a key that is revoked during its answer pays for what was produced", async () => {
  const key = await gateway.createKey("paying");
  const stream = await open(key, "openai-chat", "chunky-openai-chat");
  await stream.read(20 * 4_096);
  await revokeRecord(redis, keyspace, hashOf(key), Date.now());
  await stream.rest();
  const paid = await spentBy(key);
  assert.ok(paid >= 20 * 1_024, `${paid} for ${20 * 1_024} tokens`);
});

test("what was sent is charged even if its worker died before the caller left", async () => {
  const key = await gateway.createKey("paying");
  const worker = await gateway.addWorker("doomed=4", {}, true);
  const stream = await open(key, "openai-chat", "doomed");
  await stream.read(20 * 4_096);
  worker.freeze();
  stream.leave();
  const paid = await spentBy(key);
  await worker.kill();
  assert.ok(paid >= 20 * 1_024, `${paid} for ${20 * 1_024} tokens`);
});

test("a hundred callers that leave exceed a key's budget by at most a reservation", async () => {
  const budget = 100_000;
  const reserved = 25_000;
  const bytes = 20 * 4_096;
  const key = await gateway.createKey("default", { limits: { budgetPerDay: budget } });
  let begun = 0;
  const readAndLeave = async () => {
    const stream = await open(key, "openai-chat", "chunky-openai-chat", { max_tokens: reserved });
    const isAdmitted = (await stream.status()) === 200;
    if (isAdmitted) {
      begun++;
      await stream.read(bytes);
    }
    stream.leave();
  };
  for (let round = 0; round < 10; round++) {
    await Promise.all(Array.from({ length: 10 }, readAndLeave));
    await spentBy(key);
  }
  const spent = await spentBy(key);
  assert.ok(begun < 100, `${begun} of 100 were admitted`);
  assert.ok(
    spent >= (begun * bytes) / 4 && spent >= budget && spent <= budget + reserved + inputTokensMax,
    `${spent} of ${budget} for ${begun} answers`,
  );
});
