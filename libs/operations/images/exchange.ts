/** Images from upstreams of OpenAI's images format and from Gemini's models. */

import type { Attachment } from "#dialects/neutral/neutral.ts";
import {
  addressesIn,
  editFinder,
  formOfJson,
  hasAddress,
  openaiEditOf,
  typedFormOf,
  valuesOf,
} from "#dialects/openai-images/form.ts";
import { geminiImageAnswerOf, geminiImageRequestOf } from "#dialects/openai-images/gemini.ts";
import {
  imageAnswerOf,
  imageEventsOf,
  imageRequestOf,
  imageStreamOf,
  type Looks,
} from "#dialects/openai-images/verbatim.ts";
import { isXaiImageModel, xaiEditOf } from "#dialects/openai-images/xai.ts";
import { formOf, isJsonType } from "#wire/form.ts";
import { type JsonObject, jsonBytesOf, parsedObject } from "#wire/json/parse.ts";
import { withData } from "../conversation.ts";
import { type CallExchange, type ResolveAddresses, refusedFor } from "../exchange.ts";
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
  async prepare({ framing, body, contentType, spoken, target, createdAt }, resolve) {
    if (spoken !== "openai-images" && spoken !== "gemini") return refusedFor("images on these paths");
    const sent = isJsonType(contentType) ? (parsedObject(body) ?? {}) : undefined;
    const json = sent === undefined || formPath === undefined ? sent : openaiEditOf(sent);
    const formIn = () => (json === undefined ? formOf(body, contentType) : formOfJson(json));
    const form = formPath !== undefined ? await typedFormOf(await formIn()) : undefined;
    if (formPath === variations && spoken === "gemini") return refusedFor("variations of images");
    const values = form === undefined ? (json ?? {}) : valuesOf(form);
    const remote = form !== undefined && json !== undefined && hasAddress(json) ? json : undefined;
    const sources = () => sourcesOf(remote ?? {}, resolve);
    const ownRequest = async () => {
      if (form === undefined || formPath === undefined)
        return imageRequestOf(body, "/images/generations", target.model);
      if (formPath !== variations && isXaiImageModel(target.model))
        return xaiEditOf(values, form, await sources(), formPath, target.model);
      // Few servers read JSON here, but no form has an address.
      return remote === undefined
        ? formRequestOf(form, formPath, target.model)
        : imageRequestOf(
            await withData(json === sent ? body : jsonBytesOf(json), editFinder, resolve),
            formPath,
            target.model,
          );
    };
    const request =
      spoken === "gemini"
        ? await geminiImageRequestOf(values, form, await sources(), target.model)
        : await ownRequest();
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

/** The images at addresses, by their places: their data, or the address if the upstream fetches. */
async function sourcesOf(edit: JsonObject, resolve: ResolveAddresses): Promise<Map<number, Attachment>> {
  const addresses = [...addressesIn(edit)];
  if (addresses.length === 0) return new Map();
  const fetched = await resolve(addresses.map(([, address]) => address));
  return new Map(addresses.map(([place, { url }], at) => [place, fetched[at] ?? { kind: "url", url }]));
}

export const imageGenerationExchange = exchangeOf("image_generation");
export const imageEditExchange = exchangeOf("image_edit", "/images/edits");
export const imageVariationExchange = exchangeOf("image_variation", variations);
