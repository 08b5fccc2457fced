/**
 * Reads forms (multipart/form-data, RFC 7578) as they arrive, in bounded memory, and uploads of
 * Google's clients (multipart/related, RFC 2387).
 */
import { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Busboy, Dicer } from "@fastify/busboy";
import type { FastifyRequest } from "fastify";
import type { Failure } from "#dialects/errors.ts";
import { faultMessageOf } from "#wire/json/bounds.ts";
import { Collector } from "#wire/lines.ts";
import { fileNameMax, formFieldBytesMax, formFieldsMax, mediaTypeMax } from "../bounds.ts";

interface FormFile {
  name: string;
  mediaType: string;
}

export interface Form {
  fields: ReadonlyMap<string, string>;
  /** Undefined for a form without the file. */
  file: FormFile | undefined;
}

/**
 * Reads the form of a request with one file, in the field `fileField`, whose bytes `store` takes. A
 * failure of `store` ends the reading.
 */
export async function readForm(
  { body, headers }: Pick<FastifyRequest, "body" | "headers">,
  fileField: string,
  store: (source: AsyncIterable<Uint8Array>) => Promise<Failure | undefined>,
): Promise<Form | { failure: Failure }> {
  const parser = parserOf(headers["content-type"] ?? "");
  if (parser === undefined || !(body instanceof Readable)) return { failure: notAForm };
  const fields = new Map<string, string>();
  let file: (FormFile & { bytes: Readable; stored: Promise<Failure | undefined> }) | undefined;
  const ending = new AbortController();
  // `pipeline` reports the first error; later ones have no listener.
  parser.on("error", () => undefined);
  parser.on("field", (name, value, _isNameCut, isValueCut) => {
    if (fields.has(name)) ending.abort(new Unreadable(faultMessageOf({ repeated: name })));
    else if (isValueCut) ending.abort(new Unreadable(`The form's field '${name}' is too long.`));
    else fields.set(name, value);
  });
  parser.on("file", (field, bytes, name, _encoding, mediaType) => {
    bytes.on("error", () => ending.abort(new Unreadable(notAForm.message)));
    if (field !== fileField || file !== undefined) {
      if (field === fileField) ending.abort(new Unreadable(faultMessageOf({ repeated: field })));
      return void bytes.resume();
    }
    const stored = store(bytes);
    stored.then(
      (failure) => failure && ending.abort(failure),
      (error) => ending.abort(error),
    );
    file = { name: nameOf(name), mediaType: mediaTypeOf(mediaType), bytes, stored };
  });
  try {
    await pipeline(body, parser, { signal: ending.signal });
    const failure = await file?.stored;
    return failure === undefined ? { fields, file } : { failure };
  } catch (error) {
    file?.bytes.destroy(error as Error);
    const failure = await file?.stored.catch(() => undefined);
    if (failure !== undefined) return { failure };
    const { reason } = ending.signal;
    if (reason !== undefined && !(reason instanceof Unreadable)) throw reason;
    return { failure: { ...notAForm, message: reason?.message ?? notAForm.message } };
  }
}

class Unreadable extends Error {}

const notAForm: Failure = {
  code: "invalid_request",
  message: "The body is not a whole form; send the file as 'multipart/form-data'.",
};

function parserOf(contentType: string) {
  try {
    const [, boundary] = /^multipart\/related\b.*;\s*boundary="?([^";]+)/i.exec(contentType) ?? [];
    if (boundary !== undefined) return relatedParserOf(boundary);
    return new Busboy({
      headers: { "content-type": contentType },
      limits: { fields: formFieldsMax, fieldSize: formFieldBytesMax, headerPairs: 20, parts: 2 * formFieldsMax },
    });
  } catch {
    return undefined;
  }
}

/**
 * Its parts have no names: the first one is the field `metadata`, the next one `file`. The Dicer
 * finishes at the last boundary, before the end of the body, which its stream does not expect.
 */
function relatedParserOf(boundary: string): Writable {
  const dicer = new Dicer({ boundary, maxHeaderPairs: 20 });
  let isRead = false;
  const parser = new Writable({
    write: (bytes, _encoding, done) => void dicer.write(bytes, done),
    final: (done) => {
      if (isRead) done();
      else dicer.once("finish", () => done()).end();
    },
  });
  dicer.on("finish", () => {
    isRead = true;
  });
  dicer.on("error", (error) => parser.destroy(error));
  let parts = 0;
  dicer.on("part", (part) => {
    const isFile = parts++ > 0;
    // A body may break off before the header of a part, whose stream has no other listener then.
    part.on("error", () => undefined);
    part.on("header", (headers: Record<string, string[]>) => {
      if (isFile) parser.emit("file", "file", part, "", "binary", headers["content-type"]?.[0] ?? "");
    });
    if (isFile) return;
    const metadata = new Collector(formFieldBytesMax);
    part.on("data", (bytes: Buffer) => metadata.add(bytes));
    part.on("end", () => {
      const bytes = metadata.take();
      parser.emit("field", "metadata", String(bytes ?? ""), false, bytes === undefined);
    });
  });
  return parser;
}

/** A media type as a header can have it. */
export const mediaTypeOf = (text: string): string =>
  /^[!-~][ -~]*$/.test(text) && text.length <= mediaTypeMax ? text : "application/octet-stream";

/** Whether the database takes a text: it has no NUL, and its JSON no halves of characters. */
export const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes("\0");

/** A text on one line, which a database and a header can have. */
export const plainTextOf = (text: string, lengthMax: number): string =>
  text
    .replaceAll(/\p{Cc}/gu, "_")
    .slice(0, lengthMax)
    .toWellFormed();

export const nameOf = (name: string): string => plainTextOf(name, fileNameMax) || "file";
