/** Reads upstreams' error bodies for callers of the same and of other dialects. */

import { codecs } from "#dialects/codecs.ts";
import type { UpstreamDialect } from "#dialects/dialect.ts";
import type { UpstreamError } from "#dialects/errors.ts";
import { callerFieldOf } from "#dialects/neutral/caller-field.ts";
import type { NeutralRequest } from "#dialects/neutral/neutral.ts";
import { upstreamErrorOf } from "#dialects/upstream-errors/upstream-errors.ts";
import { isConversation } from "./conversation.ts";

export type ReadError = (body: unknown) => UpstreamError;

export const errorReaderOf = (upstream: UpstreamDialect): ReadError =>
  isConversation(upstream) ? codecs[upstream].upstreamErrorOf : upstreamErrorOf;

/**
 * Reads the errors of an upstream of another dialect. Such an error names a field of the upstream's
 * dialect: `param` becomes the caller's name of that field, if there is one, while the message
 * keeps the upstream's name.
 */
export function foreignErrorReaderOf(upstream: UpstreamDialect, request: NeutralRequest | undefined): ReadError {
  const errorOf = errorReaderOf(upstream);
  return (body) => {
    const { param, ...error } = errorOf(body);
    const named = param ?? /^[\w.]+(?=: )/.exec(error.message)?.[0];
    const own = named === undefined || request === undefined ? undefined : callerFieldOf(named, request);
    const message = param === undefined || error.message.includes(param) ? error.message : `${param}: ${error.message}`;
    return { ...error, message, ...(own !== undefined && { param: own }) };
  };
}
