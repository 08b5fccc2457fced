/** Calls operations of control's API by name, with a token. */
import type { AnswerOf, InputOf } from "./operation.ts";
import { type OperationName, operations } from "./operations.ts";
import { addressOf, answerOf, requestOf } from "./request.ts";

export interface ApiAddress {
  /** The address of control, without /api/v1. */
  url: string;
  token: string;
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
  input: Input<Name> = {},
): Promise<AnswerOf<(typeof operations)[Name]>> {
  const signal = AbortSignal.timeout(timeoutMs);
  return (await answerOf(await responseOf({ url, token }, name, input, signal))) as AnswerOf<(typeof operations)[Name]>;
}

/** The same for an operation whose answer is a stream, which may take longer than its beginning. */
export async function readOperation<Name extends OperationName>(
  address: ApiAddress,
  name: Name,
  input: Input<Name> = {},
): Promise<AsyncIterable<Uint8Array>> {
  const beginning = new AbortController();
  const timer = setTimeout(() => beginning.abort(), timeoutMs);
  try {
    const response = await responseOf(address, name, input, beginning.signal);
    if (!response.ok) await answerOf(response);
    return response.body ?? new ReadableStream();
  } finally {
    clearTimeout(timer);
  }
}

function responseOf<Name extends OperationName>(
  { url, token }: ApiAddress,
  name: Name,
  input: Input<Name>,
  signal: AbortSignal,
): Promise<Response> {
  const { method, path } = operations[name];
  const request = requestOf(method, input.body, { authorization: `Bearer ${token}` });
  return fetch(new URL(addressOf(path, input), url), { ...request, signal });
}
