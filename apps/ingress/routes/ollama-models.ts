/**
 * Models in Ollama's format: https://docs.ollama.com/api/tags,
 * https://docs.ollama.com/api-reference/show-model-details
 */
import { hash } from "node:crypto";
import { type ListedModel, timeTextOf } from "#dialects/profile.ts";

/** Ollama's names of the catalogue's capabilities. */
const capabilityNames: Record<string, string> = {
  tools: "tools",
  vision: "vision",
  reasoning: "thinking",
  embedding: "embedding",
};

/** Fields that describe a file with a model, which a gateway has not. */
const detailsOf = ({ ownedBy }: ListedModel) => ({
  parent_model: "",
  format: "",
  family: ownedBy,
  families: [ownedBy],
  parameter_size: "",
  quantization_level: "",
});

export const modelListOf = (models: readonly ListedModel[]): object => ({
  models: models.map((model) => ({
    name: model.id,
    model: model.id,
    modified_at: timeTextOf(model.created),
    size: 0,
    digest: hash("sha256", model.id),
    details: detailsOf(model),
  })),
});

export function modelDetailsOf(model: ListedModel): object {
  const named = model.capabilities.flatMap((capability) => capabilityNames[capability] ?? []);
  return {
    license: "",
    modelfile: "",
    parameters: "",
    template: "",
    details: detailsOf(model),
    model_info: {
      "general.architecture": model.ownedBy,
      ...(model.contextWindow !== undefined && { [`${model.ownedBy}.context_length`]: model.contextWindow }),
    },
    capabilities: named.includes("embedding") ? named : ["completion", ...named],
    modified_at: timeTextOf(model.created),
  };
}
