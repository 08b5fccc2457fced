/** Steps that the batches of all vendors share. */
import { refuse } from "../dialects/dialect.ts";
import { settingValuesIn } from "../settings.ts";

export interface BatchRequest {
  method: string;
  path: string;
  query: URLSearchParams;
  body: unknown;
  /** Headers of the credential and of the version of the API. */
  headers: Record<string, string>;
}

interface SelfAnswer {
  status: number;
  requestId: string;
  text: string;
}

/** Sends a request to the simulator. */
export type SendToSelf = (path: string, body: string, headers: Record<string, string>) => Promise<SelfAnswer>;

export interface VendorBatches {
  serves(method: string, path: string): boolean;
  /** The body of an answer: JSON, or the content of a file. Throws Refused. */
  answer(request: BatchRequest): object | string;
  /** The body of an error, in JSON. */
  errorBody(fault: { status: number; message: string }): string;
}

export type BatchFault = "fail" | "expire" | "hold" | "refuse";

export interface RunOptions {
  fault: BatchFault | undefined;
  headers: Record<string, string>;
}

/** The setting `batch` of a model's name. */
export function batchFaultOf(model: unknown): BatchFault | undefined {
  const values =
    typeof model === "string" && model.includes(";") ? settingValuesIn(model.slice(model.indexOf(";"))) : undefined;
  return values?.kind === "ok" ? (values.value.get("batch") as BatchFault | undefined) : undefined;
}

const requestsAtOnce = 16;

/**
 * Answers requests while `isRunning`, and resolves to those that are left: a half of a batch that
 * expires, all of one that is held.
 */
export async function runRequests<Request>(
  requests: readonly Request[],
  { fault, isRunning }: { fault: BatchFault | undefined; isRunning(): boolean },
  answer: (request: Request) => Promise<void>,
): Promise<Request[]> {
  const left = [...requests];
  const leftAtEnd =
    fault === "hold" ? requests.length : fault === "expire" ? requests.length - (requests.length >> 1) : 0;
  const runner = async () => {
    while (isRunning() && left.length > leftAtEnd) await answer(left.shift() as Request);
  };
  await Promise.all(Array.from({ length: requestsAtOnce }, runner));
  while (fault === "hold" && isRunning()) await new Promise((resolve) => setTimeout(resolve, 20));
  return left;
}

const kept = 10_000;

/** Objects by their ids; the oldest are forgotten. */
export class Kept<Item> {
  readonly #items = new Map<string, Item>();
  readonly #missing: (id: string | undefined) => never;

  constructor(missing: (id: string | undefined) => string, param?: string) {
    this.#missing = (id) => refuse(missing(id), param, { status: 404 });
  }

  add(id: string, item: Item): void {
    this.#items.set(id, item);
    const [oldest] = this.#items.keys();
    if (this.#items.size > kept && oldest !== undefined) this.#items.delete(oldest);
  }

  get(id: string | undefined): Item | undefined {
    return this.#items.get(id ?? "");
  }

  /** Refuses an id that nothing has. */
  find(id: string | undefined): Item {
    return this.get(id) ?? this.#missing(id);
  }

  delete(id: string | undefined): void {
    this.find(id);
    this.#items.delete(id as string);
  }

  /** The newest first. */
  list(): Item[] {
    return [...this.#items.values()].reverse();
  }
}

/** The page of a list, which has the items behind the one with the id `after`. */
export function pageOf<Item extends { id: string }>(all: readonly Item[], limit: number, after: string | null) {
  const from = after === null ? 0 : all.findIndex(({ id }) => id === after) + 1;
  const data = all.slice(from, from + limit);
  const ids = { first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
  return { data, ...ids, has_more: all.length > from + limit };
}

/** The number of items that a query asks for; undefined if it is not from 1 to `max`. */
export function limitIn(query: URLSearchParams, max: number): number | undefined {
  const limit = Number(query.get("limit") ?? 20);
  return Number.isInteger(limit) && limit >= 1 && limit <= max ? limit : undefined;
}
