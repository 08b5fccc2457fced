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
  const { method, path } = operations[name];
  const response = await fetch(new URL(addressOf(path, input), url), {
    ...requestOf(method, input.body, { authorization: `Bearer ${token}` }),
    signal: AbortSignal.timeout(timeoutMs),
  });
  return (await answerOf(response)) as AnswerOf<(typeof operations)[Name]>;
}
