// @ts-nocheck: all-clients.ts installs its packages, beside the project.
/**
 * Cohere's JavaScript client, and the AI SDK's with the argument `ai-sdk`: rankings by the model
 * `rerank`.
 */
import assert from "node:assert/strict";
import { key, run, url } from "./checks.js";

const request = { model: "rerank", query: "red apple", documents: ["a green pear", "a red apple"] };

async function cohere() {
  const { CohereClientV2 } = await import("cohere-ai");
  const { results } = await new CohereClientV2({ token: key, environment: url }).rerank({ ...request, topN: 1 });
  return results.map(({ index }) => index);
}

async function aiSdk() {
  const [{ rerank }, { createCohere }] = await Promise.all([import("ai"), import("@ai-sdk/cohere")]);
  const model = createCohere({ apiKey: key, baseURL: `${url}/v2` }).reranking("rerank");
  const { ranking } = await rerank({ ...request, model, topN: 1 });
  return ranking.map(({ originalIndex }) => originalIndex);
}

await run({
  rerank: async () => assert.deepEqual(await (process.argv[2] === "ai-sdk" ? aiSdk : cohere)(), [1]),
});
