/** Receives files that callers upload, as forms or as they are. */
import { Readable } from "node:stream";
import type { FastifyRequest } from "fastify";
import type { Failure } from "#dialects/errors.ts";
import { uploadsOfAccountMax } from "../bounds.ts";
import type { FileRow } from "../database/tables.ts";
import { type Form, readForm } from "../internal/form.ts";
import type { FileDetails, FileResult, FileStore, NewFile } from "./file-store.ts";

/** A file in a field of a form. */
type FormFileOptions = Pick<NewFile, "upload"> & { field: string };
type DetailsOf = (form: Form, arrived: Arrived) => FileResult<FileDetails>;
type ArrivingFile = Extract<Awaited<ReturnType<FileStore["begin"]>>, { value: unknown }>["value"];
/** `createdAt` in epoch milliseconds: a life begins then. */
export type Arrived = Pick<ArrivingFile, "bytes" | "createdAt">;

export class FileReceiver {
  readonly #files: FileStore;
  /** Running uploads by account. */
  readonly #running = new Map<string, number>();

  constructor(files: FileStore) {
    this.#files = files;
  }

  /** `detailsOf` gets the whole form and its file, which has arrived. */
  receiveForm(
    request: FastifyRequest,
    { field, upload }: FormFileOptions,
    detailsOf: DetailsOf,
  ): Promise<FileResult<FileRow>> {
    return this.#receive(request, upload, async (arriving) => {
      const form = await readForm(request, field, (source) => arriving.receive(source));
      return "failure" in form ? form : detailsOf(form, arriving);
    });
  }

  /** A body that is a file, or a part of an upload. */
  receiveBody(
    request: FastifyRequest,
    upload: FileRow | undefined,
    detailsOf: (arrived: Arrived) => FileResult<FileDetails>,
  ): Promise<FileResult<FileRow>> {
    return this.#receive(request, upload, async (arriving) => {
      const { body, raw } = request;
      try {
        const failure = body instanceof Readable ? await arriving.receive(body) : undefined;
        if (failure !== undefined) return { failure };
      } catch (error) {
        if (raw.complete) throw error;
        return { failure: brokenOff };
      }
      return detailsOf(arriving);
    });
  }

  async #receive(
    request: FastifyRequest,
    upload: FileRow | undefined,
    store: (arriving: ArrivingFile) => Promise<FileResult<FileDetails>>,
  ): Promise<FileResult<FileRow>> {
    const { account } = request.claims;
    const running = this.#running.get(account) ?? 0;
    if (running >= uploadsOfAccountMax) return { failure: tooManyUploads };
    this.#running.set(account, running + 1);
    try {
      return await this.#store(request, upload, store);
    } finally {
      const left = (this.#running.get(account) ?? 1) - 1;
      if (left === 0) this.#running.delete(account);
      else this.#running.set(account, left);
    }
  }

  async #store(
    { claims, headers }: FastifyRequest,
    upload: FileRow | undefined,
    store: (arriving: ArrivingFile) => Promise<FileResult<FileDetails>>,
  ): Promise<FileResult<FileRow>> {
    const length = headers["content-length"];
    const owner = { account: claims.account, key_id: claims.key };
    const begun = await this.#files.begin(owner, {
      announcedBytes: length === undefined ? undefined : Number(length),
      ...(upload !== undefined && { upload }),
    });
    if ("failure" in begun) return begun;
    const arriving = begun.value;
    let isKept = false;
    try {
      const details = await store(arriving);
      if ("failure" in details) return details;
      const finished = await arriving.finish(details.value);
      isKept = "value" in finished;
      return finished;
    } finally {
      if (!isKept) await arriving.abandon();
    }
  }
}

const brokenOff: Failure = { code: "request_timeout", message: "The file did not arrive as a whole; send it again." };

const tooManyUploads: Failure = {
  code: "rate_limited",
  message: `The account uploads ${uploadsOfAccountMax} files at the same time, as many as it may; wait until some of them have ended.`,
  retryAfterSeconds: 1,
};
