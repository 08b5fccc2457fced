/** Images from upstreams of OpenAI's images format and from Gemini's models. */
import { parsedObject } from "#dialects/json.ts";
import { formOf, valuesOf } from "#dialects/openai-images/form.ts";
import { geminiImageAnswerOf, geminiImageRequestOf } from "#dialects/openai-images/gemini.ts";
import {
  imageAnswerOf,
  imageEditRequestOf,
  imageEventsOf,
  imageRequestOf,
  imageStreamOf,
} from "#dialects/openai-images/verbatim.ts";
import { type CallExchange, refusedFor } from "../exchange.ts";

interface Context {
  spoken: "gemini" | "openai-images";
  createdAt: number;
  /** The number of requested images. */
  count: number;
  /** The prefix of event names; undefined for a caller without a stream. */
  event: string | undefined;
}

/** `event` is the prefix of event names. */
const exchangeOf = (event: string, isForm: boolean): CallExchange<Context> => ({
  wantedOf: () => "openai-images",
  async prepare({ framing, body, contentType, spoken, target, createdAt }) {
    if (spoken !== "openai-images" && spoken !== "gemini") return refusedFor("images on these paths");
    const form = isForm ? await formOf(body, contentType) : undefined;
    const values = form === undefined ? (parsedObject(body) ?? {}) : valuesOf(form);
    const request =
      spoken === "gemini"
        ? await geminiImageRequestOf(values, form, target.model)
        : form === undefined
          ? imageRequestOf(body, target.model)
          : await imageEditRequestOf(form, target.model);
    if (request === undefined) return refusedFor("requests without a model");
    const context: Context = {
      spoken,
      createdAt,
      count: typeof values.n === "number" ? values.n : 1,
      event: framing === "sse" ? event : undefined,
    };
    return { kind: "call", request, context, errors: spoken === "gemini" ? "foreign" : "own" };
  },
  read(context, bytes) {
    if (context.spoken === "gemini")
      return geminiImageAnswerOf(parsedObject(bytes) ?? {}, context.createdAt, context.event);
    return context.event === undefined ? imageAnswerOf(bytes) : imageEventsOf(bytes, context.event);
  },
  stream: ({ spoken, count }) => (spoken === "openai-images" ? imageStreamOf(count) : undefined),
});

export const imageGenerationExchange = exchangeOf("image_generation", false);
export const imageEditExchange = exchangeOf("image_edit", true);
