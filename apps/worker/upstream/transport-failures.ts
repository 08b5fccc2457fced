/**
 * The failures of a call whose upstream sent no answer, or broke it off. Callers see their
 * messages, so they name no address.
 */
import { errors } from "undici";
import type { Failure } from "#dialects/errors.ts";

export const failureOfConfiguration: Failure = {
  code: "upstream_failed",
  message: "The upstream of this model is not set up; its operator has been notified.",
};
export const failureOfEncoding: Failure = {
  code: "upstream_failed",
  message: "The upstream of this model sent an answer whose compression is broken.",
};
export const failureOfAuthorization: Failure = {
  code: "upstream_failed",
  message: "The upstream of this model refused the gateway; its operator has been notified.",
};

export const unreachableInTime: Failure = {
  code: "upstream_timeout",
  message: "The upstream of this model could not be reached in time.",
};

/**
 * Codes of the network, of DNS, and of `Unreachable`:
 * https://nodejs.org/api/errors.html#common-system-errors,
 * https://nodejs.org/api/dns.html#error-codes
 */
const unreachable =
  /^(?:ECONNREFUSED|EHOST(?:UNREACH|DOWN)|ENET(?:UNREACH|DOWN)|EADDR(?:NOTAVAIL|REFUSED)|ENOTFOUND|ENODATA|ESERVFAIL|EAI_[A-Z]+)$/;
/**
 * Codes of TLS: https://nodejs.org/api/tls.html#x509-certificate-error-codes,
 * https://nodejs.org/api/errors.html
 */
const untrusted =
  /CERT|^(?:UNABLE_TO_|CRL_|ERR_TLS_|ERR_SSL_|ERROR_IN_|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_EXCEEDED|EPROTO)/;

/** The caller sees the message, so it names no address. */
export function failureOfTransport(error: Error): Failure {
  if (error instanceof errors.ConnectTimeoutError) return unreachableInTime;
  const code = (error as NodeJS.ErrnoException).code ?? "";
  if (unreachable.test(code))
    return { code: "upstream_failed", message: "The upstream of this model could not be reached." };
  if (untrusted.test(code))
    return {
      code: "upstream_failed",
      message: "The upstream of this model could not be reached securely.",
    };
  if (error instanceof errors.HeadersOverflowError)
    return { code: "upstream_failed", message: "The upstream of this model sent headers that are too large." };
  return {
    code: "upstream_failed",
    message: "The upstream of this model broke the connection before its answer was complete.",
  };
}
