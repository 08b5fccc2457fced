/**
 * In any failure, an answer has every word once and in order, and one that looks complete is
 * complete. Runs all combinations of where the answer continues, what the catalogue allows there,
 * where it broke, how it is requested and in which dialect.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { type Gateway, startGateway } from "../support/gateway.ts";
import { isLong } from "../support/long.ts";
import { readStream } from "../support/stream.ts";
import { chatChunk, chatEnd, startScriptedUpstream, streamAnswer } from "../support/upstream.ts";

const wordsMax = 20;
const wordAt = (place: number) => `w${String(place).padStart(2, "0")} `;
/** Another model says something else: the same words, but loud. */
const loud = (word: string) => word.toUpperCase();

interface Asked {
  model: string;
  stream?: boolean;
  messages: { role: string; content: string }[];
}

/**
 * Breaks its first answer where the prompt says, and the next one too if that says so. `same` says
 * what the first says; `prefill` continues a turn.
 */
const upstream = await startScriptedUpstream((response, request) => {
  const { model, stream, messages }: Asked = request.json;
  const [, first, second] =
    /break at (\d+) then (\d+)/.exec(messages.find(({ role }) => role === "user")?.content ?? "") ?? [];
  const isFirst = model.startsWith("first");
  const breaksAt = Number(isFirst ? first : second);
  const last = messages.at(-1);
  const from = model.includes("prefill") && last?.role === "assistant" ? last.content.trim().split(/\s+/).length : 0;
  const words = Array.from({ length: wordsMax }, (_, place) =>
    isFirst || model.includes("same") ? wordAt(place) : loud(wordAt(place)),
  );
  const delivered = words.slice(from, Math.max(from, breaksAt));
  const breaks = breaksAt < wordsMax + 1;
  if (stream === true) {
    const events = chatChunk({ role: "assistant" }) + delivered.map((content) => chatChunk({ content })).join("");
    return breaks ? streamAnswer(events, "broken")(response) : streamAnswer(events + chatEnd)(response);
  }
  const whole = JSON.stringify({
    choices: [{ index: 0, message: { role: "assistant", content: delivered.join("") }, finish_reason: "stop" }],
  });
  response.writeHead(200, { "content-type": "application/json", "content-length": whole.length });
  if (!breaks) response.end(whole);
  else {
    response.write(whole.slice(0, breaksAt * 2));
    setImmediate(() => response.destroy());
  }
});

interface Setup {
  id: string;
  /**
   * The next target may not be another's words: they are the same, or it was given the text so far.
   */
  catalogue: string;
}

const flags = [false, true];
const prices = "prices: { inputPerMillion: 1, outputPerMillion: 2 }";
const setups: Setup[] = flags.flatMap((resume) =>
  flags.flatMap((deterministic) =>
    flags.flatMap((prefill) => {
      const id = `${resume ? "resume" : "plain"}-${deterministic ? "same" : "other"}-${prefill ? "prefill" : "fresh"}`;
      const own = `resume: ${resume}, deterministic: ${deterministic}, ${prices}`;
      const first = "{ upstream: fresh, model: first }";
      const second = (same: boolean) =>
        `{ upstream: ${prefill ? "prefill" : "fresh"}, model: "second ${same ? "same" : ""} ${prefill ? "prefill" : ""}" }`;
      const target = {
        id: `target-${id}`,
        catalogue: `  - { id: target-${id}, retries: 1, ${own}, route: [${first}, ${second(deterministic)}] }\n`,
      };
      const fallbacks = flags.flatMap((theirResume) =>
        flags.map((theirSame) => {
          const name = `fallback-${id}-${theirResume ? "resume" : "plain"}-${theirSame ? "same" : "other"}`;
          const other = `  - { id: other-${name}, retries: 0, resume: ${theirResume}, deterministic: ${theirSame}, ${prices}, route: [${second(theirSame)}] }\n`;
          return {
            id: name,
            catalogue: `${other}  - { id: ${name}, retries: 0, ${own}, fallbacks: [other-${name}], route: [${first}] }\n`,
          };
        }),
      );
      return [target, ...fallbacks];
    }),
  ),
);

const gateway: Gateway = await startGateway({
  workers: ["chat=64"],
  catalogue: `groups: { default: { models: ["*"] } }
upstreams:
  fresh: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.url}" }
  prefill: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.url}", prefill: true }
models:
${setups.map(({ catalogue }) => catalogue).join("")}`,
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

interface Caller {
  path: string;
  body(model: string, prompt: string, stream: boolean): object;
  /** The terminator of a stream that succeeded. */
  end: RegExp;
}

const callers: Record<string, Caller> = {
  chat: {
    path: "/v1/chat/completions",
    body: (model, content, stream) => ({ model, stream, messages: [{ role: "user", content }] }),
    end: /data: \[DONE\]\n\n$/,
  },
  messages: {
    path: "/v1/messages",
    body: (model, content, stream) => ({ model, stream, max_tokens: 500, messages: [{ role: "user", content }] }),
    end: /event: message_stop\n.*\n\n$/,
  },
};

const breaks = [0, 1, 7, wordsMax, wordsMax + 1];

/** `npm test` plays a third of the cells in each of the four tests, and all of them in three. */
for (const [place, { name, path, body, end, stream }] of Object.entries(callers)
  .flatMap(([name, caller]) => flags.map((stream) => ({ name, stream, ...caller })))
  .entries())
  test(`no word is repeated, lost, or mixed from another answer: ${name}, ${stream ? "streamed" : "whole"}`, async () => {
    const complaints: string[] = [];
    const outcomes = { complete: 0, failed: 0 };
    const play = async (setup: Setup, first: number, second: number) => {
      const response = await fetch(`${gateway.url}${path}`, {
        method: "POST",
        headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
        body: JSON.stringify(body(setup.id, `break at ${first} then ${second}`, stream)),
      });
      const { text } = stream ? await readStream(response) : { text: await response.text() };
      const words = text.match(/[wW]\d\d/g) ?? [];
      const isComplete = response.status === 200 && (!stream || end.test(text));
      outcomes[isComplete ? "complete" : "failed"]++;
      const complain = (what: string) =>
        complaints.push(`${setup.id}, ${first} then ${second}: ${what}: ${words.join(" ")}`);
      if (words.some((word, place) => word.toLowerCase() !== wordAt(place).trim()))
        complain("not every word once and in order");
      if (isComplete && words.length !== wordsMax) complain("complete, but not all of it");
      if (!isComplete && response.status === 200 && !text.includes('"error"')) complain("neither an end nor an error");
      if (new Set(words.map((word) => word[0])).size > 1 && !setup.id.includes("prefill"))
        complain("two answers in one");
      if (first > wordsMax && !isComplete) complain("a healthy target did not do");
      if (first === 0 && second > wordsMax && !isComplete)
        complain("nothing was delivered, and yet the next target did not do");
    };
    const allCells = setups.flatMap((setup) =>
      breaks.flatMap((first) => [wordsMax + 1, 10].map((second) => [setup, first, second] as const)),
    );
    const cells = allCells.filter((_, at) => isLong || at % 3 === place % 3);
    for (let from = 0; from < cells.length; from += 40)
      await Promise.all(cells.slice(from, from + 40).map((cell) => play(...cell)));
    assert.deepEqual(complaints, []);
    assert.ok(outcomes.complete > 0 && outcomes.failed > 0, JSON.stringify(outcomes));
  });
