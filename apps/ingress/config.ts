/** The ingress's settings, each with its bounds. */
import { integerOf } from "#service/config.ts";

export interface IngressConfig {
  host: string;
  port: number;
  /** A caller's body at most. */
  bodyBytesMax: number;
  /** All bodies held by this process at most: a body is held until its answer has begun. */
  bodiesBytesMax: number;
  /** Generations of this process at once. */
  generationsMax: number;
  /** A request must have arrived whole within this time, its headers within a quarter of it. */
  requestTimeoutMs: number;
  /** A stream that is silent gets a sign of life this often. */
  keepAliveMs: number;
  /** After SIGTERM: how long to go on serving as usual, not ready, so that a load balancer sees it. */
  drainNoticeMs: number;
  /** After that: how long open answers may take to finish. */
  drainMs: number;
  /** Switches job inspection on; the user's name is `operator`. */
  operatorPassword: string | undefined;
}

export function ingressConfigOf(environment: Record<string, string | undefined>): IngressConfig {
  const mebibyte = 1 << 20;
  return {
    host: environment.HOST || "127.0.0.1",
    port: integerOf(environment, "PORT", 8080, 0, 65_535),
    bodyBytesMax: integerOf(environment, "BODY_BYTES_MAX", 32 * mebibyte, 1024, 512 * mebibyte),
    bodiesBytesMax: integerOf(environment, "BODIES_BYTES_MAX", 512 * mebibyte, mebibyte, 64 * 1024 * mebibyte),
    generationsMax: integerOf(environment, "GENERATIONS_MAX", 10_000, 1, 1_000_000),
    requestTimeoutMs: integerOf(environment, "REQUEST_TIMEOUT_MS", 60_000, 1_000, 3_600_000),
    keepAliveMs: integerOf(environment, "KEEP_ALIVE_MS", 10_000, 100, 3_600_000),
    drainNoticeMs: integerOf(environment, "DRAIN_NOTICE_MS", 0, 0, 600_000),
    drainMs: integerOf(environment, "DRAIN_MS", 30_000, 0, 3_600_000),
    operatorPassword: environment.OPERATOR_PASSWORD || undefined,
  };
}
