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
    const cut = await batchesWith().run({ ...read, places: [2], target });
    assert.ok(cut.kind === "unknown" && cut.isOver === true);
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

test("the reason of a refusal has the vendor's codes, and nothing of what a caller has sent", async () => {
  const secret = "the caller's words";
  const reasons: [status: number, body: unknown, reason: string][] = [
    [400, { error: { message: secret, type: "invalid_request_error", code: null } }, "400 invalid_request_error"],
    [400, { error: { message: secret, code: "token_limit_exceeded", type: "x" } }, "400 token_limit_exceeded"],
    [404, { type: "error", error: { type: "not_found_error", message: secret } }, "404 not_found_error"],
    [403, { error: { code: 403, status: "PERMISSION_DENIED", message: secret.repeat(100) } }, "403 PERMISSION_DENIED"],
    [400, { error: { message: secret, code: secret, type: secret } }, "400"],
    [413, secret, "413"],
  ];
  for (const dialect of Object.keys(paths) as Dialect[])
    for (const [status, body, reason] of reasons) {
      await redis.flushall();
      const target = targetOf(dialect);
      assert.ok(await batchesWith().defer({ name, place: 0 }, target, Buffer.from("{}")));
      vendor.answerWith(jsonAnswer(body as object, status));
      assert.deepEqual(await batchesWith().run({ name, target, action: "submit" }), { kind: "refused", reason });
    }
  vendor.answerWith(
    jsonAnswer({ status: "failed", errors: { data: [{ code: "invalid_json_line", message: secret }] } }),
    jsonAnswer({}),
  );
  assert.deepEqual(await batchesWith().run({ ...read, target: targetOf("openai-chat") }), {
    ...{ kind: "ended", places: [], isWhole: true, reason: "failed invalid_json_line" },
  });
  vendor.answerWith(jsonAnswer({ done: true, metadata: { state: "BATCH_STATE_FAILED" } }), jsonAnswer({}));
  const failed = await batchesWith().run({ ...read, target: targetOf("gemini") });
  assert.equal(failed.kind === "ended" && failed.reason, "BATCH_STATE_FAILED");
});

test("a batch is read with the credential that it was sent with, or the one in its place", async () => {
  const authorized = new Upstreams(async (_upstream, credential) => ({ authorization: `Bearer ${credential}` }));
  for (const [credentials, used] of [
    ["credential: OLD", "OLD"],
    ["credentials: [NEW, OLD]", "OLD"],
    ["credential: NEW", "NEW"],
    ["", undefined],
  ]) {
    const text = `groups: { default: { models: ["*"] } }
upstreams: { gemini: { dialect: gemini, batchApi: true, baseUrl: "${vendor.url}", ${credentials} } }
models: [{ id: m, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: gemini, model: m }] }]
`;
    const catalogue = parseCatalogue(Buffer.from(text), "catalogue.yaml", { OLD: "o", NEW: "n" });
    const batches = new VendorBatches({ redis, keyspace, upstreams: authorized, catalogue: () => catalogue });
    vendor.answerWith(...(states.gemini as [UpstreamAnswer]), bodyAnswer(resultsOf.gemini(["0"]), "text/plain"));
    const { kind } = await batches.run({ ...read, target: { ...targetOf("gemini"), credential: "OLD" } });
    assert.deepEqual([kind, vendor.last().headers.authorization], ["ended", `Bearer ${used}`]);
  }
  authorized.close();
});

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
