/** Receives files that callers upload as forms. */
import type { FastifyRequest } from "fastify";
import type { Failure } from "#dialects/errors.ts";
import { uploadsOfAccountMax } from "../bounds.ts";
import type { FileRow } from "../database/tables.ts";
import { type Form, readForm } from "../internal/form.ts";
import type { FileDetails, FileResult, FileStore, NewFile } from "./file-store.ts";

/** A file in a field of a form. */
type FormFileOptions = Pick<NewFile, "upload"> & { field: string };

export class FileReceiver {
  readonly #files: FileStore;
  /** Running uploads by account. */
  readonly #running = new Map<string, number>();

  constructor(files: FileStore) {
    this.#files = files;
  }

  /** `detailsOf` gets the whole form and the size of its file. */
  async receive(
    request: FastifyRequest,
    options: FormFileOptions,
    detailsOf: (form: Form, bytes: number) => FileResult<FileDetails>,
  ): Promise<FileResult<FileRow>> {
    const { account } = request.claims;
    const running = this.#running.get(account) ?? 0;
    if (running >= uploadsOfAccountMax) return { failure: tooManyUploads };
    this.#running.set(account, running + 1);
    try {
      return await this.#receive(request, options, detailsOf);
    } finally {
      const left = (this.#running.get(account) ?? 1) - 1;
      if (left === 0) this.#running.delete(account);
      else this.#running.set(account, left);
    }
  }

  async #receive(
    request: FastifyRequest,
    { field, upload }: FormFileOptions,
    detailsOf: (form: Form, bytes: number) => FileResult<FileDetails>,
  ): Promise<FileResult<FileRow>> {
    const { claims, headers } = request;
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
      const form = await readForm(request, field, (source) => arriving.write(source));
      if ("failure" in form) return form;
      const details = detailsOf(form, arriving.bytes);
      if ("failure" in details) return details;
      const finished = await arriving.finish(details.value);
      isKept = "value" in finished;
      return finished;
    } finally {
      if (!isKept) await arriving.abandon();
    }
  }
}

const tooManyUploads: Failure = {
  code: "rate_limited",
  message: `The account uploads ${uploadsOfAccountMax} files at the same time, as many as it may; wait until some of them have ended.`,
  retryAfterSeconds: 1,
};
