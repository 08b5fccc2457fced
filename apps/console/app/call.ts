/** Calls operations of control's API by name, as the person who is signed in. */
import type { AnswerOf, InputOf } from "#api/operation.ts";
import type { OperationName, operations } from "#api/operations.ts";

declare const operationRoutes: Record<OperationName, [method: string, path: string]>;

export type Answer<Name extends OperationName> = AnswerOf<(typeof operations)[Name]>;
export type Input<Name extends OperationName> = Partial<InputOf<(typeof operations)[Name]>>;
export type { OperationName };

/**
 * An error of the API. The message says what happened and what to do about it; `field` names the
 * field that is wrong.
 */
export class ApiFault extends Error {
  readonly status: number;
  readonly field: string | undefined;

  constructor(status: number, detail: string, field?: string) {
    super(detail);
    this.status = status;
    this.field = field;
  }
}

/** What the API answered with, and its version for `ifMatch` of a later change. */
export interface Versioned<Value> {
  value: Value;
  etag: string | undefined;
}

export interface CallOptions {
  signal?: AbortSignal;
  /** Refuses a change if somebody else has changed it since. */
  ifMatch?: string | undefined;
}

/** The address of an operation, for links such as downloads. */
export function addressOf<Name extends OperationName>(name: Name, { params, query }: Input<Name> = {}): string {
  const [, path] = operationRoutes[name];
  const values = (params ?? {}) as Record<string, unknown>;
  const filled = path.replaceAll(/:(\w+)/g, (_, param: string) => encodeURIComponent(String(values[param])));
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== "");
  const search = new URLSearchParams(given.map(([field, value]) => [field, String(value)]));
  return `/api/v1${filled}${search.size > 0 ? `?${search}` : ""}`;
}

/**
 * Rejects with an ApiFault for an error of the API. Creations are idempotent: a retry by the
 * browser creates nothing twice.
 */
export async function callVersioned<Name extends OperationName>(
  name: Name,
  input: Input<Name> = {},
  { signal, ifMatch }: CallOptions = {},
): Promise<Versioned<Answer<Name>>> {
  const [method] = operationRoutes[name];
  const response = await fetch(addressOf(name, input), {
    method,
    headers: {
      accept: "application/json",
      ...(input.body !== undefined && { "content-type": "application/json" }),
      ...(method === "POST" && { "idempotency-key": newIdempotencyKey() }),
      ...(ifMatch !== undefined && { "if-match": ifMatch }),
    },
    ...(input.body !== undefined && { body: JSON.stringify(input.body) }),
    ...(signal && { signal }),
  });
  const value = await contentOf(response);
  return { value: value as Answer<Name>, etag: response.headers.get("etag") ?? undefined };
}

export const call = async <Name extends OperationName>(
  name: Name,
  input?: Input<Name>,
  options?: CallOptions,
): Promise<Answer<Name>> => (await callVersioned(name, input, options)).value;

/** A call of sign-in, below /api/auth: see docs/sign-in.md. */
export async function callAuth<Value = unknown>(path: string, body?: unknown): Promise<Value> {
  const response = await fetch(`/api/auth${path}`, {
    method: body === undefined ? "GET" : "POST",
    ...(body !== undefined && { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
  });
  return (await contentOf(response)) as Value;
}

/** The fields that errors of sign-in are about, by their code. */
const fieldsOfSignIn: Record<string, string> = {
  INVALID_PASSWORD: "password",
  INVALID_CODE: "code",
  INVALID_BACKUP_CODE: "code",
  PASSWORD_TOO_SHORT: "newPassword",
  PASSWORD_TOO_LONG: "newPassword",
};

async function contentOf(response: Response): Promise<unknown> {
  const text = await response.text();
  const value = parsed(text);
  if (response.ok) return value;
  const { detail, message, code = "", field = fieldsOfSignIn[code] } = (value ?? {}) as Partial<Record<string, string>>;
  throw new ApiFault(response.status, detail ?? message ?? `${response.status} ${response.statusText}`, field);
}

function parsed(text: string): unknown {
  try {
    return text === "" ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** `crypto.randomUUID` exists on secure pages only, and a first try may come over plain http. */
function newIdempotencyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
