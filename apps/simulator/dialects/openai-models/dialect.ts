/**
 * OpenAI's list of models: GET /v1/models and /v1/models/{id}. Every model name works; the list has
 * those with a behaviour of their own.
 */
import type { Dialect } from "../dialect.ts";
import { openaiErrorBody } from "../openai.ts";

const listed = ["sim-text", "sim-reasoning", "sim-image"];
const prefix = "/v1/models/";

const modelOf = (id: string) => ({ id, object: "model", created: 1_760_000_000, owned_by: "simulator" });

export const openaiModels: Dialect = {
  name: "openai-models",
  serves: (method, path) =>
    method === "GET" && (path === "/v1/models" || (path.startsWith(prefix) && path.length > prefix.length)),
  modelOf: ({ path }) => (path.startsWith(prefix) ? path.slice(prefix.length) : undefined),
  errorBody: openaiErrorBody,
  answer: ({ path }) => ({
    kind: "whole",
    body: JSON.stringify(
      path.startsWith(prefix) ? modelOf(path.slice(prefix.length)) : { object: "list", data: listed.map(modelOf) },
    ),
    tokens: 0,
  }),
};
