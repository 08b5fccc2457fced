import assert from "node:assert/strict";
import { test } from "node:test";
import { servedBodyOf, servedPathOf } from "../../../apps/ingress/common/vendor-paths.ts";

const vertex = "projects/p.example:1/locations/us-east5/publishers";

test("the paths of clouds lead to the vendors' own, with their query", () => {
  const cases: [string, string, string?][] = [
    ["/openai/deployments/d/chat/completions?api-version=1", "/v1/chat/completions?api-version=1", "d"],
    ["/openai/deployments/a%2Fb%20c/embeddings", "/v1/embeddings", "a/b c"],
    ["/openai/deployments/%zz/embeddings", "/v1/embeddings", "%zz"],
    ["/openai/responses?api-version=1", "/v1/responses?api-version=1"],
    ["/openai/v1/responses/resp_1", "/v1/responses/resp_1"],
    ["/openai/models", "/v1/models"],
    ["/v1beta/openai/chat/completions", "/v1/chat/completions"],
    ["/v1/openai/models?a=/x", "/v1/models?a=/x"],
    ["/openai/realtime?deployment=d", "/v1/realtime?deployment=d"],
    [
      "//ws/google.ai.generativelanguage.v1.GenerativeService.BidiGenerateContent?key=k",
      "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent?key=k",
    ],
    [
      "/ws/google.ai.generativelanguage.v1alpha.GenerativeService.BidiGenerateContent",
      "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent",
    ],
    [
      `/v1beta1/${vertex}/google/models/m:streamGenerateContent?alt=sse`,
      "/v1beta1/models/m:streamGenerateContent?alt=sse",
    ],
    ["/v1beta1/publishers/google/models/m:countTokens", "/v1beta1/models/m:countTokens"],
    [`/v1/${vertex}/google/models/a%2Fb:generateContent`, "/v1beta1/models/a%2Fb:generateContent"],
    [`/v1/${vertex}/anthropic/models/claude-x@20250101:rawPredict`, "/v1/messages", "claude-x@20250101"],
    [`/v1/${vertex}/anthropic/models/vendor%2Fm:1:streamRawPredict`, "/v1/messages", "vendor/m:1"],
    [`/v1/${vertex}/anthropic/models/count-tokens:rawPredict`, "/v1/messages/count_tokens"],
  ];
  for (const [requestUrl, served, model] of cases)
    assert.deepEqual(servedPathOf(requestUrl), { url: served, ...(model !== undefined && { model }) }, requestUrl);
});

test("the paths of LiteLLM without a version lead to the version that serves them", () => {
  for (const path of [
    "/chat/completions",
    "/completions?a=/x",
    "/embeddings",
    "/images/generations",
    "/images/edits",
    "/audio/speech",
    "/audio/transcriptions",
    "/moderations",
    "/models",
    "/models/vendor/m",
    "/models/m:generateContent",
    "/models/m:streamGenerateContent?alt=sse",
    "/responses",
    "/responses/resp_1/input_items",
    "/responses/compact",
    "/realtime?model=m",
    "/files/file-1/content",
    "/batches/b/cancel",
  ])
    assert.deepEqual(servedPathOf(path), { url: `/v1${path}` });
  assert.deepEqual(servedPathOf("/interactions/i/cancel?a=b"), { url: "/v1beta/interactions/i/cancel?a=b" });
  assert.deepEqual(servedPathOf("/models/m:batchGenerateContent"), {
    url: "/v1beta/batches/m:batchGenerateContent",
  });
});

test("other paths are served as they are", () => {
  for (const url of [
    "/",
    "*",
    "",
    "/openai",
    "/openai?x=/openai/models",
    "/v1/models/openai/gpt",
    "/v1/chat/completions?next=/openai/models",
    "/v1beta/models/openai:generateContent",
    "/openaix/models",
    "/messages",
    "/rerank",
    "/chat",
    "/modelsx",
    "/v1/responses",
    "/v1/projects/p/publishers/google/models/m:generateContent",
    `/v1/${vertex}/google/models`,
    `/v1/${vertex}/anthropic/models/m:predict`,
    `/v1/${vertex}/meta/models/m:rawPredict`,
  ])
    assert.deepEqual(servedPathOf(url), { url });
});

test("a body gets the path's model, and every other byte stays", () => {
  const cases: [string, string][] = [
    ['{ "messages" : [1.50, {"model":"x"}] }', '{ "messages" : [1.50, {"model":"x"}] ,"model":"a\\"b"}'],
    ['{"model" : "", "n":1e2}', '{"model" : "a\\"b", "n":1e2}'],
    ['{"model":"x","a":1,"model":null}', '{"model":"a\\"b","a":1,"model":"a\\"b"}'],
    ["{ }", '{ "model":"a\\"b"}'],
    ['{"anthropic_version":"v","m":[]}', '{"m":[],"model":"a\\"b"}'],
    ['{"anthropic_version":"v"}', '{"model":"a\\"b"}'],
    ["[1]", "[1]"],
    ['{"broken', '{"broken'],
    ["", ""],
  ];
  for (const [sent, served] of cases)
    assert.equal(servedBodyOf(Buffer.from(sent), { url: "/", model: 'a"b' }).toString(), served);
  assert.equal(servedBodyOf(Buffer.from('{"model":"x"}'), { url: "/" }).toString(), '{"model":"x"}');
});
