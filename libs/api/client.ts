/** Calls operations of control's API by name. Runs in Node and in browsers. */
import type { AnswerOf, InputOf, Operation } from "./operation.ts";
import { type OperationName, operations } from "./operations.ts";

export interface ApiAddress {
  /** Of control, without /api/v1. */
  url: string;
  token: string;
}

/** An error of the API. The message says what happened and what to do about it. */
export class ApiFault extends Error {
  readonly status: number;

  constructor(status: number, detail: string) {
    super(detail);
    this.status = status;
  }
}

type Input<Name extends OperationName> = Partial<InputOf<(typeof operations)[Name]>>;

const timeoutMs = 15_000;

/**
 * Rejects with an ApiFault for an error of the API, and with another error if control does not
 * answer in time.
 */
export async function callOperation<Name extends OperationName>(
  { url, token }: ApiAddress,
  name: Name,
  { params, query, body }: Input<Name> = {},
): Promise<AnswerOf<(typeof operations)[Name]>> {
  const { method, path }: Operation = operations[name];
  const values = (params ?? {}) as Record<string, unknown>;
  const filled = path.replaceAll(/:(\w+)/g, (_, param: string) => encodeURIComponent(String(values[param])));
  const address = new URL(`/api/v1${filled}`, url);
  for (const [field, value] of Object.entries(query ?? {}))
    if (value !== undefined) address.searchParams.set(field, String(value));
  const response = await fetch(address, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(body !== undefined && { "content-type": "application/json" }),
      ...(method === "POST" && { "idempotency-key": crypto.randomUUID() }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(timeoutMs),
  });
  const text = await response.text();
  if (!response.ok)
    throw new ApiFault(response.status, detailIn(text) ?? `control answered with status ${response.status}`);
  return (text === "" ? undefined : JSON.parse(text)) as AnswerOf<(typeof operations)[Name]>;
}

function detailIn(text: string): string | undefined {
  try {
    const { detail } = JSON.parse(text) as { detail?: unknown };
    return typeof detail === "string" ? detail : undefined;
  } catch {
    return undefined;
  }
}
