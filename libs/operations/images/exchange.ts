/** Images from upstreams of OpenAI's images format and from Gemini's models. */

import { formOfJson, typedFormOf, valuesOf } from "#dialects/openai-images/form.ts";
import { geminiImageAnswerOf, geminiImageRequestOf } from "#dialects/openai-images/gemini.ts";
import {
  imageAnswerOf,
  imageEventsOf,
  imageRequestOf,
  imageStreamOf,
  type Looks,
} from "#dialects/openai-images/verbatim.ts";
import { formOf, isJsonType } from "#wire/form.ts";
import { parsedObject } from "#wire/json/parse.ts";
import { type CallExchange, refusedFor } from "../exchange.ts";
import { formRequestOf } from "../openai-call.ts";

const variations = "/images/variations";

interface Context {
  spoken: "gemini" | "openai-images";
  createdAt: number;
  /** The number of requested images. */
  count: number;
  looks: Looks;
  /** The prefix of event names; undefined for a caller without a stream. */
  event: string | undefined;
}

/**
 * `event` is the prefix of event names. `formPath` is the upstream's path, if requests are forms.
 */
const exchangeOf = (event: string, formPath?: string): CallExchange<Context> => ({
  wantedOf: () => "openai-images",
  async prepare({ framing, body, contentType, spoken, target, createdAt }) {
    if (spoken !== "openai-images" && spoken !== "gemini") return refusedFor("images on these paths");
    const formIn = () => (isJsonType(contentType) ? formOfJson(parsedObject(body) ?? {}) : formOf(body, contentType));
    const form = formPath !== undefined ? await typedFormOf(await formIn()) : undefined;
    if (formPath === variations && spoken === "gemini") return refusedFor("variations of images");
    const values = form === undefined ? (parsedObject(body) ?? {}) : valuesOf(form);
    const request =
      spoken === "gemini"
        ? await geminiImageRequestOf(values, form, target.model)
        : form === undefined || formPath === undefined
          ? imageRequestOf(body, target.model)
          : await formRequestOf(form, formPath, target.model);
    if (request === undefined) return refusedFor("requests without a model");
    const context: Context = {
      spoken,
      createdAt,
      count: typeof values.n === "number" ? values.n : 1,
      looks: { size: values.size, quality: values.quality },
      event: framing === "sse" ? event : undefined,
    };
    return { kind: "call", request, context, errors: spoken === "gemini" ? "foreign" : "own" };
  },
  read(context, bytes) {
    if (context.spoken === "gemini")
      return geminiImageAnswerOf(parsedObject(bytes) ?? {}, context.createdAt, context.event, context.looks);
    const { event, looks } = context;
    return event === undefined ? imageAnswerOf(bytes, looks) : imageEventsOf(bytes, event, looks);
  },
  stream: ({ spoken, count, looks }) => (spoken === "openai-images" ? imageStreamOf(count, looks) : undefined),
});

export const imageGenerationExchange = exchangeOf("image_generation");
export const imageEditExchange = exchangeOf("image_edit", "/images/edits");
export const imageVariationExchange = exchangeOf("image_variation", variations);
