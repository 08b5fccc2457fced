/** Calls operations of control's API by name, as the person who is signed in. */
import type { AnswerOf, InputOf } from "#api/operation.ts";
import type { OperationName, operations } from "#api/operations.ts";
import { answerOf, addressOf as requestAddressOf, requestOf } from "#api/request.ts";

declare const operationRoutes: Record<OperationName, [method: string, path: string]>;

export type Answer<Name extends OperationName> = AnswerOf<(typeof operations)[Name]>;
export type Input<Name extends OperationName> = Partial<InputOf<(typeof operations)[Name]>>;
export { ApiFault } from "#api/request.ts";
export type { OperationName };

/** The value of an answer, and its version for `ifMatch` of a later change. */
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
export const addressOf = <Name extends OperationName>(name: Name, input: Input<Name> = {}): string =>
  requestAddressOf(operationRoutes[name][1], input);

/** A call takes no longer. */
const callMsMax = 60_000;

let onSignedOut = () => {};
/** `handler`: called when a call is refused because the session is over. */
export function whenSignedOut(handler: () => void): void {
  onSignedOut = handler;
}

/** Rejects with an ApiFault for an error of the API. */
export async function callVersioned<Name extends OperationName>(
  name: Name,
  input: Input<Name> = {},
  { signal, ifMatch }: CallOptions = {},
): Promise<Versioned<Answer<Name>>> {
  const [method] = operationRoutes[name];
  const response = await fetch(addressOf(name, input), {
    ...requestOf(method, input.body, ifMatch === undefined ? {} : { "if-match": ifMatch }),
    signal: AbortSignal.any([AbortSignal.timeout(callMsMax), ...(signal ? [signal] : [])]),
  });
  if (response.status === 401 && name !== "getMe") onSignedOut();
  const value = await answerOf(response);
  return { value: value as Answer<Name>, etag: response.headers.get("etag") ?? undefined };
}

export const call = async <Name extends OperationName>(
  name: Name,
  input?: Input<Name>,
  options?: CallOptions,
): Promise<Answer<Name>> => (await callVersioned(name, input, options)).value;

/** A call of sign-in, below /api/auth: see docs/sign-in.md. */
export async function callAuth<Value = unknown>(path: string, body?: unknown): Promise<Value> {
  const response = await fetch(`/api/auth${path}`, requestOf(body === undefined ? "GET" : "POST", body));
  return (await answerOf(response)) as Value;
}
