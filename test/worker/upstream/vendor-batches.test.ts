/** Batches at vendors that answer with something else than they should. */
import assert from "node:assert/strict";
import { after, beforeEach, test } from "node:test";
import { parseCatalogue } from "#catalogue/load.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import type { VendorTarget } from "#service/vendor-batch.ts";
import { vendorRequestsBytesMax } from "../../../apps/worker/bounds.ts";
import { Upstreams } from "../../../apps/worker/upstream/upstreams.ts";
import { VendorBatches } from "../../../apps/worker/upstream/vendor-batches.ts";
import { startRedis } from "../../support/redis.ts";
import { bodyAnswer, jsonAnswer, startScriptedUpstream, type UpstreamAnswer } from "../../support/upstream.ts";

await using opened = new AsyncDisposableStack();
const server = opened.use(await startRedis());
const redis = await connectRedis(server.url, "request");
opened.defer(() => redis.disconnect());
const vendor = opened.use(await startScriptedUpstream());
const upstreams = new Upstreams(() => Promise.resolve({}));
opened.defer(() => upstreams.close());
const resources = opened.move();
after(() => resources.disposeAsync());

const keyspace = keyspaceOf("sluice");
const name = "batch_1-0-1";
const paths = {
  "openai-chat": "/chat/completions",
  "anthropic-messages": "/messages",
  gemini: "/models/m:generateContent",
};
type Dialect = keyof typeof paths;
const targetOf = (dialect: Dialect): VendorTarget => ({
  ...{ upstream: dialect, credential: null, path: paths[dialect], model: "m", headers: {} },
});

function batchesWith({ batchApi = true } = {}) {
  const catalogue = parseCatalogue(
    Buffer.from(`groups: { default: { models: ["*"] } }
upstreams:
${Object.keys(paths)
  .map((dialect) => `  ${dialect}: { dialect: ${dialect}, batchApi: ${batchApi}, baseUrl: "${vendor.url}" }`)
  .join("\n")}
models: [{ id: m, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: gemini, model: m }] }]
`),
    "catalogue.yaml",
    {},
  );
  return new VendorBatches({ redis, keyspace, upstreams, catalogue: () => catalogue });
}

beforeEach(() => redis.flushall());

const read = { name, action: "read", id: "batches/1", places: [0, 1, 2, 10], cancels: false } as const;

/** The answers of a vendor to the calls that read a batch, the last one with these results. */
const states: Record<Dialect, UpstreamAnswer[]> = {
  "openai-chat": [jsonAnswer({ status: "completed" }), jsonAnswer({ output_file_id: "file-1" })],
  "anthropic-messages": [jsonAnswer({ processing_status: "ended" })],
  gemini: [jsonAnswer({ done: true })],
};
const prefix = `${"0".repeat(40)}-`;
const resultsOf: Record<Dialect, (ids: readonly unknown[]) => string> = {
  "openai-chat": (ids) =>
    ids
      .map((id) => `${JSON.stringify({ custom_id: id, response: { status_code: 200, body: { id: `of ${id}` } } })}\n`)
      .join(""),
  "anthropic-messages": (ids) =>
    ids
      .map((id) => (typeof id === "string" ? prefix + id : id))
      .map((id) => `${JSON.stringify({ custom_id: id, result: { type: "succeeded", message: { id: `of ${id}` } } })}\n`)
      .join(""),
  gemini: (ids) => {
    const responses = ids.map((id) => ({ metadata: { key: id }, response: { id: `of ${id}` } }));
    return JSON.stringify({ response: { inlinedResponses: { inlinedResponses: responses } } });
  },
};
const foreign = [null, "", " 1 ", "0x1", "1e0", "01", "-1", "1.0", "١", 1, true, [1], {}, "1-", "99999999999999999999"];

for (const dialect of ["openai-chat", "anthropic-messages", "gemini"] as const) {
  const target = targetOf(dialect);

  test(`ids that the gateway has not given are no answers: ${dialect}`, async () => {
    vendor.answerWith(...(states[dialect] as [UpstreamAnswer]), bodyAnswer(resultsOf[dialect](foreign), "text/plain"));
    assert.deepEqual(await batchesWith().run({ ...read, target }), { kind: "ended", places: [], isWhole: true });
    const results = resultsOf[dialect]([...foreign, "10", "0", "10"]);
    vendor.answerWith(...(states[dialect] as [UpstreamAnswer]), bodyAnswer(results, "text/plain"));
    assert.deepEqual(await batchesWith().run({ ...read, target }), { kind: "ended", places: [10, 0], isWhole: true });
  });

  test(`answers before the results break off are taken: ${dialect}`, async () => {
    const results = resultsOf[dialect](["0", "1"]);
    const breaksOff: UpstreamAnswer = (response) => {
      response.writeHead(200, { "content-length": results.length + 1_000 });
      response.write(results, () => setImmediate(() => response.destroy()));
    };
    vendor.answerWith(...(states[dialect] as [UpstreamAnswer]), breaksOff);
    const answer = await batchesWith().run({ ...read, target });
    assert.deepEqual(answer, { kind: "ended", places: [0, 1], isWhole: false });
    vendor.answerWith(...(states[dialect] as [UpstreamAnswer]), breaksOff);
    assert.equal((await batchesWith().run({ ...read, places: [2], target })).kind, "unknown");
  });

  test(`a submission without an id has no known result: ${dialect}`, async () => {
    for (const answer of [{}, { id: null, name: null }, { id: 7, name: 7 }, { id: "", name: "" }, [], "null"]) {
      assert.ok(await batchesWith().defer({ name, place: 0 }, target, Buffer.from("{}")));
      const answers: UpstreamAnswer[] = [jsonAnswer(answer)];
      if (dialect === "openai-chat") answers.unshift(jsonAnswer({ id: "file-1" }));
      vendor.answerWith(...(answers as [UpstreamAnswer]));
      assert.equal((await batchesWith().run({ name, target, action: "submit" })).kind, "unknown", String(answer));
    }
  });

  test(`a batch goes on when the catalogue allows no further ones: ${dialect}`, async () => {
    const batches = batchesWith({ batchApi: false });
    vendor.answerWith(...(states[dialect] as [UpstreamAnswer]), bodyAnswer(resultsOf[dialect](["0"]), "text/plain"));
    assert.equal((await batches.run({ ...read, target })).kind, "ended");
    assert.ok(await batches.defer({ name, place: 0 }, target, Buffer.from("{}")));
    assert.equal((await batches.run({ name, target, action: "submit" })).kind, "refused");
  });
}

test("a batch has requests for one target, and so many bytes", async () => {
  const [target, other] = [targetOf("openai-chat"), targetOf("gemini")];
  const batches = batchesWith();
  const defer = (place: number, bytes: number, of = target) => batches.defer({ name, place }, of, Buffer.alloc(bytes));
  const half = vendorRequestsBytesMax / 2;
  const outcomes: boolean[] = [];
  for (const [place, bytes] of [half, half + 1, half, 1].entries()) outcomes.push(await defer(place, bytes));
  assert.deepEqual(outcomes, [true, false, true, false]);
  assert.equal(await defer(4, 0, other), false);
  assert.deepEqual((await redis.hkeys(keyspace.vendorRequests(name))).sort(), ["0", "2", "bytes", "target"]);
  await redis.flushall();
  assert.equal(await defer(0, vendorRequestsBytesMax + 1), false);
  assert.ok((await redis.pttl(keyspace.vendorRequests(name))) > 0, "what is left expires");
});
