/** Sends signed events to receivers: https://www.standardwebhooks.com */
import { Webhook } from "standardwebhooks";
import { type Dispatcher, fetch } from "undici";
import type { Clock } from "#service/clock.ts";
import { Unreachable } from "#service/public-agent.ts";
import { retryAfterSecondsOf } from "#wire/retry-after.ts";

export interface Post {
  url: string;
  /** The same at each attempt. */
  id: string;
  body: string;
  /** Each makes a signature. Those that begin with `whsec_` are base64. */
  secrets: readonly string[];
  /** Makes the connections. Undefined: any address may be called. */
  dispatcher: Dispatcher | undefined;
  timeoutMs: number;
}

export interface PostResult {
  /** Null without an answer. */
  status: number | null;
  /** Why it was not accepted. */
  problem: string | undefined;
  retryAfterMs: number;
}

/** Only a status of 2xx is a success. Never rejects. */
export async function post({ url, id, body, secrets, dispatcher, timeoutMs }: Post, clock: Clock): Promise<PostResult> {
  const now = clock.epoch();
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "webhook-id": id,
        "webhook-timestamp": String(Math.floor(now / 1_000)),
        ...(secrets.length > 0 && { "webhook-signature": signaturesOf(secrets, { id, at: new Date(now), body }) }),
      },
      body,
      redirect: "error",
      ...(dispatcher && { dispatcher }),
      signal: AbortSignal.timeout(timeoutMs),
    });
    await response.body?.cancel();
    const { status, ok } = response;
    const retryAfterSeconds = retryAfterSecondsOf(Object.fromEntries(response.headers), clock.epoch()) ?? 0;
    const problem = ok ? undefined : `status ${status}`;
    return { status, problem, retryAfterMs: Math.max(0, retryAfterSeconds) * 1_000 };
  } catch (error) {
    return { status: null, problem: problemOf(error as Error), retryAfterMs: 0 };
  }
}

const signaturesOf = (secrets: readonly string[], { id, at, body }: { id: string; at: Date; body: string }): string =>
  secrets.map((secret) => new Webhook(keyOf(secret), { format: "raw" }).sign(id, at, body)).join(" ");

const keyOf = (secret: string): Buffer =>
  secret.startsWith("whsec_") ? Buffer.from(secret.slice("whsec_".length), "base64") : Buffer.from(secret);

const problemOf = ({ name, cause }: Error): string => {
  if (cause instanceof Unreachable) return "its address is not a public one, nor in WEBHOOK_NETWORKS";
  return name === "TimeoutError" ? "no answer in time" : "no connection";
};
