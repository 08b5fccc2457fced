/** Streamed answers that are resumed after their worker died, in every dialect. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { callers } from "../conformance/callers/callers.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";
import { isLong } from "../support/long.ts";

const dialects = Object.keys(callers) as ConversationDialect[];
/** `npm test` runs four of the pairs: each dialect is once the caller's and once the upstream's. */
const cells = dialects.flatMap((caller, place) =>
  dialects
    .filter((upstream) => isLong || upstream === dialects[(place + 1) % dialects.length])
    .map((upstream) => ({ caller, name: `repeats-${upstream}` })),
);
const pace = "rate=20;first=0;tokens=60";
/** Runs yet when the last of the others has begun, however long that takes. */
const endless = "rate=20;first=0;tokens=10000";

const model = (id: string, upstream: string, length: string, more = "") =>
  `  - { id: ${id}, retries: 0, ${more}prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: ${upstream}, model: "sim-text;${length}" }] }\n`;
const catalogue = `groups: { default: { models: ["*"] } }
upstreams:
${dialects.map((dialect) => `  ${dialect}: { dialect: ${dialect}, baseUrl: "\${SIMULATOR_URL}/${dialect === "gemini" ? "v1beta" : "v1"}" }`).join("\n")}
models:
${dialects.map((dialect) => model(`repeats-${dialect}`, dialect, pace, "resume: true, deterministic: true, ") + model(`stops-${dialect}`, dialect, endless, "resume: true, ")).join("")}`;

const broken = "the connection broke";

/**
 * Starts a stream, reports its first content, and reads it to its end. A broken connection ends it
 * too.
 */
async function streamed(
  gateway: Gateway,
  dialect: ConversationDialect,
  name: string,
  begun?: () => void,
): Promise<string> {
  const { path, body } = callers[dialect].requestOf(
    { turns: [{ role: "user", text: "Tell me something long." }] },
    name,
    true,
  );
  const response = await fetch(`${gateway.url}${path}`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      authorization: `Bearer ${gateway.key}`,
      "x-api-key": gateway.key,
      "x-goog-api-key": gateway.key,
    },
    body: JSON.stringify(body),
  });
  assert.equal(response.status, 200, `${dialect} of ${name}`);
  let text = "";
  try {
    for await (const part of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += part;
      if (text.split("\n\n").length > 8) begun?.();
    }
  } catch {
    text += broken;
  }
  return text;
}

test("a streamed answer is resumed without repeating a word when its worker dies, in and from each dialect; one that cannot be resumed ends with an error", async () => {
  await using gateway = await startGateway({ processes: "workers", catalogue });
  const undisturbed = await Promise.all(cells.map(({ caller, name }) => streamed(gateway, caller, name)));
  const begun = new Set<string>();
  const replace = async () => void (await Promise.all([gateway.workers[0]?.kill(), gateway.addWorker("chat=64")]));
  let replaced: Promise<void> | undefined;
  const stopped = dialects.map((dialect) => streamed(gateway, dialect, `stops-${dialect}`));
  const texts = await Promise.all(
    cells.map(({ caller, name }) =>
      streamed(gateway, caller, name, () => {
        if (begun.add(`${caller} of ${name}`).size === cells.length) replaced ??= replace();
      }),
    ),
  );
  assert.ok(replaced);
  await replaced;
  for (const [place, { caller, name }] of cells.entries()) {
    const expected = callers[caller].readStream(undisturbed[place] as string);
    const read = callers[caller].readStream(texts[place] as string);
    const of = `${caller} of ${name}`;
    assert.deepEqual(read.faults, [], of);
    assert.equal(read.error, undefined, of);
    assert.equal(read.text, expected.text, of);
    assert.equal(read.finish, "stop", of);
    assert.equal(read.usage?.output, expected.usage?.output, of);
  }
  for (const [place, text] of (await Promise.all(stopped)).entries()) {
    const dialect = dialects[place] as ConversationDialect;
    assert.match(text, /"error"/, dialect);
    // Their clients take a stream that ends in order for a whole answer.
    assert.equal(text.endsWith(broken), ["openai-chat", "gemini"].includes(dialect), dialect);
  }
});
