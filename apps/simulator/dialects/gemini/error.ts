/** Errors in the format of Google's endpoints (google.rpc.Status). */
import type { SentFault } from "../dialect.ts";

const statusNames: Record<number, string> = {
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  409: "ABORTED",
  429: "RESOURCE_EXHAUSTED",
  499: "CANCELLED",
  501: "UNIMPLEMENTED",
  503: "UNAVAILABLE",
  504: "DEADLINE_EXCEEDED",
};

const typeOf = (name: string) => `type.googleapis.com/google.rpc.${name}`;

export function geminiErrorBody({ status, message, param, retryAfter, reason }: SentFault): string {
  const details: object[] = [];
  if (param !== undefined && param !== "")
    details.push({ "@type": typeOf("BadRequest"), fieldViolations: [{ field: param, description: message }] });
  if (reason !== undefined)
    details.push({
      ...{ "@type": typeOf("ErrorInfo"), reason, domain: "googleapis.com" },
      metadata: { service: "generativelanguage.googleapis.com" },
    });
  if (retryAfter !== undefined)
    details.push({ "@type": typeOf("RetryInfo"), retryDelay: `${secondsUntil(retryAfter)}s` });
  const name = statusNames[status] ?? (status < 500 ? "INVALID_ARGUMENT" : "INTERNAL");
  return JSON.stringify({
    error: { code: status, message, status: name, details: details.length > 0 ? details : undefined },
  });
}

/** For seconds, or an HTTP date. */
const secondsUntil = (retryAfter: string) =>
  /^\d+$/.test(retryAfter) ? Number(retryAfter) : Math.max(0, Math.ceil((Date.parse(retryAfter) - Date.now()) / 1_000));
