/** Answers of rerankers, as callers of Cohere's and Jina's format get them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { rerankExchange, rerankWithDocumentsExchange } from "#operations/rerank/exchange.ts";

const context = { id: "rerank-1", model: "ours", count: 3, ranked: 2, documents: undefined };
const documents = ["a", "b", "c"];
const result = (index: number, score: unknown, more: object = {}) => ({ index, relevance_score: score, ...more });

/** The caller's answer for this one of the upstream. */
function read(answer: object, repeats = false) {
  const exchange = repeats ? rerankWithDocumentsExchange : rerankExchange;
  const read = exchange.read({ ...context, ...(repeats && { documents }) }, Buffer.from(JSON.stringify(answer)));
  return read.kind === "answer" ? JSON.parse(read.body.toString()) : read.kind;
}

test("a ranking is sorted and has no more results than were asked for, whatever the upstream does", () => {
  const best = [result(2, 0.9), result(0, 0.5)];
  for (const results of [
    best,
    [result(0, 0.5), result(2, 0.9)],
    [result(0, 0.5), result(1, 0.1), result(2, 0.9)],
    [result(1, -3), ...best],
  ]) {
    assert.deepEqual(read({ results }).results, best);
    assert.deepEqual(read({ object: "list", data: results, model: "rerank-2" }), {
      object: "list",
      id: "rerank-1",
      model: "ours",
      results: best,
      usage: { total_tokens: 0 },
      meta: { api_version: { version: "2" } },
    });
  }
});

test("documents are repeated as objects, also where the upstream has them as texts", () => {
  const expected = [result(1, 1, { document: { text: "b" } })];
  for (const document of [undefined, null, "b", { text: "b" }])
    assert.deepEqual(read({ results: [result(1, 1, { document })] }, true).results, expected);
  assert.deepEqual(read({ data: [result(1, 1, { document: "b" })] }).results, [result(1, 1)]);
});

test("an answer that is no ranking of the documents is none", () => {
  for (const results of [[], {}, null, [result(3, 1)], [result(-1, 1)], [result(0, "1")], Array(4).fill(result(0, 1))])
    assert.equal(read({ results }), "malformed", JSON.stringify(results));
  assert.equal(read({ error: { message: "busy" } }), "error");
});
