/**
 * Replaces the names of uploaded files in a request by their content, before it is checked: so any
 * upstream can answer it. Names of files that are not the gateway's stay, for the vendor that has
 * them.
 */
import type { FastifyRequest } from "fastify";
import { isTextual, mimeTypeOf, typeByNameOf } from "#dialects/neutral/attachments.ts";
import { isObject, type JsonObject, jsonBytesOf, objectOf, parsedObject, stringOf } from "#wire/json/parse.ts";
import { attachedFilesMax } from "../common/bounds.ts";
import type { ServedEndpoint } from "../common/endpoints.ts";
import { tooLarge } from "../common/failures.ts";
import { Refusal, type Result, refusalOf } from "../common/refusal.ts";
import type { ControlLink, LinkedFile } from "../server/control-link.ts";
import type { RequestBodies } from "../server/request-bodies.ts";

interface AttachedFile extends LinkedFile {
  mediaType: string;
}

/** A place in a request that names a file. */
interface FileReference {
  id: string;
  replace(file: AttachedFile): void;
}

interface AttachedFilesOptions {
  link: ControlLink;
  bodies: RequestBodies;
  bodyBytesMax: number;
}

const dataUrlOf = ({ mediaType, bytes }: AttachedFile) => `data:${mediaType};base64,${bytes.toString("base64")}`;

/** The members of a part in place of its `file_id`. */
type ContentOf = (file: AttachedFile, part: JsonObject) => JsonObject;

const namedContentOf: ContentOf = (file, { filename }) => ({
  filename: filename ?? file.name,
  file_data: dataUrlOf(file),
});

/** The contents of parts that name a file, by the parts' types. */
const contents = new Map<unknown, ContentOf>([
  ["input_file", namedContentOf],
  ["input_image", (file) => ({ image_url: dataUrlOf(file) })],
  ["file", (file) => sourceOf(file)],
]);

/** The forms in which requests name a file; undefined for an object that names none. */
const referenceOf = (value: JsonObject): FileReference | undefined =>
  idReferenceOf(value, contents.get(value.type)) ??
  (value.type === "file" && isObject(value.file) ? idReferenceOf(value.file, namedContentOf) : undefined) ??
  uriReferenceOf(value);

function idReferenceOf(part: JsonObject, contentOf: ContentOf | undefined): FileReference | undefined {
  const id = idOf(part.file_id);
  if (id === undefined || contentOf === undefined) return undefined;
  return {
    id,
    replace: (file) => {
      delete part.file_id;
      Object.assign(part, contentOf(file, part));
    },
  };
}

function uriReferenceOf(part: JsonObject): FileReference | undefined {
  const member = ["fileData", "file_data"].find((name) => isObject(part[name]));
  const data = objectOf(part[member ?? ""]);
  const id = /(?:^|\/)files\/([0-9a-z]{24})$/.exec(stringOf(data.fileUri ?? data.file_uri) ?? "")?.[1];
  if (id === undefined) return undefined;
  return {
    id,
    replace: ({ mediaType, bytes }) => {
      delete part[member ?? ""];
      const mimeType = stringOf(data.mimeType ?? data.mime_type) ?? mediaType;
      part.inlineData = { mimeType, data: bytes.toString("base64") };
    },
  };
}

/** The id of a file of this gateway, by one of its names. */
const idOf = (name: unknown): string | undefined => /^file[-_]([0-9a-z]{24})$/.exec(stringOf(name) ?? "")?.[1];

/** Anthropic's documents: https://platform.claude.com/docs/en/build-with-claude/pdf-support */
const sourceOf = ({ mediaType, bytes }: AttachedFile) =>
  mediaType === "text/plain"
    ? { type: "text", media_type: mediaType, data: bytes.toString() }
    : { type: "base64", media_type: mediaType, data: bytes.toString("base64") };

function* referencesIn(value: unknown): Generator<FileReference> {
  if (Array.isArray(value)) for (const element of value) yield* referencesIn(element);
  else if (isObject(value)) {
    const reference = referenceOf(value);
    if (reference !== undefined) yield reference;
    else for (const member of Object.values(value)) yield* referencesIn(member);
  }
}

export class AttachedFiles {
  readonly #options: AttachedFilesOptions;

  constructor(options: AttachedFilesOptions) {
    this.#options = options;
  }

  /** Whether a request may name a file. Costs a search in its bytes. */
  concerns({ bytes }: Pick<FastifyRequest, "bytes">, { dialect, operation }: ServedEndpoint): boolean {
    if (operation !== "answer" && operation !== "token-count") return false;
    return dialect === "gemini" ? bytes.includes("files/") : bytes.includes("file_id");
  }

  /** The body of the request with its files. */
  async bodyOf(request: FastifyRequest): Promise<Result<Buffer>> {
    const { link, bodies, bodyBytesMax } = this.#options;
    const body = parsedObject(request.bytes);
    if (body === undefined) return request.bytes;
    const references = [...referencesIn(body)];
    if (references.length === 0) return request.bytes;
    const byId = Map.groupBy(references, ({ id }) => id);
    if (byId.size > attachedFilesMax)
      return refusalOf(`A request may name ${attachedFilesMax} uploaded files at most.`);
    let bytesLeft = bodyBytesMax - request.bytes.length;
    for (const [id, same] of byId) {
      const file = await link.fileOf(request, id, Math.floor((bytesLeft / same.length) * (3 / 4)));
      if (file === undefined) return new Refusal(tooLarge(bodyBytesMax));
      if (file instanceof Refusal) return file;
      bytesLeft -= Math.ceil(file.bytes.length / 3) * 4 * same.length;
      const refusal = bodies.reserve(request, bodyBytesMax - bytesLeft);
      if (refusal !== undefined) return refusal;
      for (const { replace } of same) replace({ ...file, mediaType: mediaTypeOf(file) });
    }
    return jsonBytesOf(body);
  }
}

/** The content decides the type, then the sender's word, then the file's name. */
function mediaTypeOf({ bytes, type, name }: LinkedFile): string {
  const declared = type === "application/octet-stream" || type === "" ? typeByNameOf(name) : type;
  const mediaType = mimeTypeOf(bytes.subarray(0, 64)) ?? declared ?? "text/plain";
  return isTextual(mediaType) ? "text/plain" : mediaType;
}
