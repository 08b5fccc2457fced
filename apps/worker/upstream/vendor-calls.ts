/** The API of a vendor's batches, as each vendor's module implements it. */
import type { Readable } from "node:stream";
import type { VendorTarget } from "#service/vendor-batch.ts";
import { objectOf, parsedObject } from "#wire/json/parse.ts";
import type { UpstreamRequest } from "./upstreams.ts";

export interface VendorRequest {
  method: "GET" | "POST" | "DELETE";
  path: string;
  headers?: Record<string, string>;
  body?: Buffer;
}

/** Calls of a vendor's API with the credential of a batch. */
export interface VendorCalls {
  /** The object of a successful answer. Rejects with VendorRefusal, or an error of the network. */
  call(request: VendorRequest): Promise<Record<string, unknown>>;
  /** Reads the body of a successful answer as it arrives. */
  read<Result>(request: VendorRequest, read: (body: Readable) => Promise<Result>): Promise<Result>;
}

/** The vendor's answer has a status of an error. */
export class VendorRefusal extends Error {
  readonly status: number;

  /** `text`: the body of the answer. */
  constructor(status: number, text: string) {
    const { error } = parsedObject(Buffer.from(text)) ?? {};
    super(reasonOf(status, error));
    this.status = status;
  }
}

/** For the log. A vendor's text may repeat what a caller has sent; its codes do not. */
export function reasonOf(state: unknown, error: unknown): string {
  const { code, status, type } = objectOf(error);
  const words = [state, ...[code, status, type].filter((word) => typeof word === "string").slice(0, 1)];
  return words
    .map(String)
    .filter((word) => /^[\w.-]{1,60}$/.test(word))
    .join(" ");
}

/** The vendor's id of what a call has created. Rejects an answer without one. */
export function idIn({ id }: Record<string, unknown>): string {
  if (typeof id !== "string" || id === "") throw new Error("the vendor's answer has no id");
  return id;
}

/** The place of a request that has this id; undefined for an id that the gateway does not give. */
export const placeIn = (id: unknown): number | undefined =>
  typeof id === "string" && /^(0|[1-9]\d{0,8})$/.test(id) ? Number(id) : undefined;

/** A batch that runs may be the one that is looked for. */
export class VendorUnclear extends Error {}

export interface VendorRequests {
  name: string;
  target: VendorTarget;
  /** By place. */
  requests: ReadonlyMap<number, Buffer>;
}

/** One of the vendor's answers; the body of a success alone. */
export interface VendorAnswerLine {
  place: number;
  body: Buffer;
}

interface VendorBatchState {
  isRunning: boolean;
  /** Why it has ended without all answers. */
  reason?: string;
}

export interface VendorBatchApi {
  /** Whether the vendor's batches take a request. */
  takes(request: Pick<UpstreamRequest, "path" | "headers">): boolean;
  /** Resolves to the vendor's id. */
  submit(calls: VendorCalls, batch: VendorRequests): Promise<string>;
  /**
   * The id of the batch with this name; without one, deletes what its submission left.
   * `submittedAt` is in epoch milliseconds. Rejects with VendorUnclear if only time can tell.
   */
  find(calls: VendorCalls, name: string, submittedAt: number): Promise<string | undefined>;
  /** Asks for its end if it runs and `cancels`. */
  stateOf(calls: VendorCalls, id: string, cancels: boolean): Promise<VendorBatchState>;
  /** The successes of a batch that is over, until `take` wants no more. */
  readAnswers(calls: VendorCalls, id: string, take: (line: VendorAnswerLine) => Promise<boolean>): Promise<void>;
  /** Deletes a batch that is over, and its files. */
  delete(calls: VendorCalls, id: string): Promise<void>;
}
