/** Embeddings of one content or of a batch. */
import { vectorOf } from "../../answer/vector.ts";
import { answerBytesMax } from "../../settings.ts";
import { refuse, type Whole } from "../dialect.ts";
import { shaped } from "../shape.ts";
import { contentTokensOf, textOf } from "./request.ts";
import { camelOf, checkedEmbed, checkedEmbedBatch, type EmbedRequest } from "./schema.ts";

const dimensionsOtherwise = 768;
/** The most characters of a number in JSON. */
const numberBytes = 16;

export function embeddingOf(raw: unknown, withUsage: boolean): Whole {
  const body = shaped(checkedEmbed, camelOf(raw));
  return wholeOf(`"embedding":${vectorJsonOf(body)}`, [body], withUsage);
}

export function embeddingsOf(raw: unknown, withUsage: boolean): Whole {
  const body = shaped(checkedEmbedBatch, camelOf(raw));
  const bytes = body.requests.reduce(
    (sum, { outputDimensionality }) => sum + (outputDimensionality ?? dimensionsOtherwise) * numberBytes,
    0,
  );
  if (bytes > answerBytesMax) refuse(`So many vectors are more than ${answerBytesMax} bytes.`, "requests");
  return wholeOf(`"embeddings":[${body.requests.map(vectorJsonOf).join(",")}]`, body.requests, withUsage);
}

function wholeOf(vectors: string, requests: EmbedRequest[], withUsage: boolean): Whole {
  const promptTokens = requests.reduce((sum, { content }) => sum + contentTokensOf(content), 0);
  const usage = withUsage ? `,"usageMetadata":{"promptTokenCount":${promptTokens}}` : "";
  return { kind: "whole", body: `{${vectors}${usage}}`, tokens: 0 };
}

/** Nine digits represent a 32-bit float exactly. */
function vectorJsonOf({ content, outputDimensionality }: EmbedRequest): string {
  const vector = vectorOf(textOf(content.parts), outputDimensionality ?? dimensionsOtherwise);
  return `{"values":[${Array.from(vector, (value) => Number(value.toPrecision(9))).join(",")}]}`;
}
