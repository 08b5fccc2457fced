/** The ingress's settings, each with its bounds. */
import {
  drainSettings,
  integerSetting,
  listenSettings,
  memoryShare,
  readSettings,
  secretSetting,
  textSetting,
} from "#service/config.ts";
import { largestClaimOf } from "./admission/capacity.ts";

const mebibyte = 1 << 20;

/** Bytes: a larger body leaves a part of `BODIES_BYTES_MAX` to small ones. Up to this size it counts as announced; above it, as it arrives. */
export const smallBodyBytesMax = 64 * 1024;

/** Bytes: an answer of which more is held leaves a part of `ANSWERS_BYTES_MAX` to others. */
export const smallAnswerBytesMax = 64 * 1024;

export const ingressSettings = {
  ...listenSettings,
  ...drainSettings,
  bodyBytesMax: integerSetting(
    "BODY_BYTES_MAX",
    32 * mebibyte,
    1024,
    512 * mebibyte,
    "Bytes of a request's body at most.",
  ),
  bodiesBytesMax: integerSetting(
    "BODIES_BYTES_MAX",
    memoryShare(8, 512 * mebibyte),
    mebibyte,
    64 * 1024 * mebibyte,
    "Bytes of all bodies that one ingress holds at most, each until its answer has begun; one key alone gets 7/10 of them, and no body may be larger than that. With its parsed value and what is yet to be collected, a body takes three to five times its size.",
  ),
  answersBytesMax: integerSetting(
    "ANSWERS_BYTES_MAX",
    memoryShare(8, 512 * mebibyte),
    4 * mebibyte,
    64 * 1024 * mebibyte,
    "Bytes of all answers that one ingress holds at most because their callers have not taken them; one key alone gets 7/10 of them. A key that needs more loses the connections whose callers have not caught up for longest.",
  ),
  generationsMax: integerSetting(
    "GENERATIONS_MAX",
    10_000,
    1,
    1_000_000,
    "Generations that one ingress holds at once at most; one key alone gets 4/5 of them.",
  ),
  requestTimeoutMs: integerSetting(
    "REQUEST_TIMEOUT_MS",
    60_000,
    1_000,
    3_600_000,
    "Within this time a request must have arrived whole, its headers within a quarter of it.",
  ),
  uploadBytesPerSecondMin: integerSetting(
    "UPLOAD_BYTES_PER_SECOND_MIN",
    8 * 1024,
    1,
    1024 * mebibyte,
    "A sender whose body, or WebSocket message, arrives more slowly than this is cut off with a 408, once it is UPLOAD_GRACE_MS behind.",
  ),
  uploadGraceMs: integerSetting(
    "UPLOAD_GRACE_MS",
    10_000,
    100,
    3_600_000,
    "How far a sender may fall behind UPLOAD_BYTES_PER_SECOND_MIN: also how long it may send nothing at all.",
  ),
  sendTimeoutMs: integerSetting(
    "SEND_TIMEOUT_MS",
    60_000,
    100,
    3_600_000,
    "A caller that takes nothing of what waits for it for this long has left.",
  ),
  keepAliveMs: integerSetting(
    "KEEP_ALIVE_MS",
    10_000,
    100,
    3_600_000,
    "A stream that has been silent for this long gets a sign of life.",
  ),
  idempotencyWindowMs: integerSetting(
    "IDEMPOTENCY_WINDOW_MS",
    600_000,
    1_000,
    86_400_000,
    "How long Redis keeps an answer that was asked for with an `Idempotency-Key`, for the same request sent again.",
  ),
  idempotencyKeyBytesMax: integerSetting(
    "IDEMPOTENCY_KEY_BYTES_MAX",
    16 * mebibyte,
    0,
    64 * 1024 * mebibyte,
    "Bytes of answers that Redis stores at most for the callers of one key; an answer that would exceed it is not stored.",
  ),
  idempotencyBytesMax: integerSetting(
    "IDEMPOTENCY_BYTES_MAX",
    128 * mebibyte,
    0,
    64 * 1024 * mebibyte,
    "Bytes of answers that Redis stores at most for all callers. Nothing is stored while Redis uses more than half of its memory.",
  ),
  aofRewriteMs: integerSetting(
    "AOF_REWRITE_MS",
    3_600_000,
    1_000,
    604_800_000,
    "How often the ingresses have Redis rewrite its append-only file, if it keeps one. The file holds request bodies and stored answers until then, also those that Redis has deleted.",
  ),
  responsesWebsocket: textSetting(
    "RESPONSES_WEBSOCKET",
    "on",
    "OpenAI's Responses over WebSockets, at GET /v1/responses; switched off, callers are told to POST.",
    "on or off",
    /^(on|off)$/,
  ),
  socketsMax: integerSetting(
    "SOCKETS_MAX",
    10_000,
    0,
    1_000_000,
    "WebSockets that one ingress holds at once at most; one key alone gets 4/5 of them.",
  ),
  socketPingMs: integerSetting(
    "SOCKET_PING_MS",
    30_000,
    100,
    3_600_000,
    "How often a WebSocket is pinged; one on which nothing moved since the last time is closed.",
  ),
  socketIdleMs: integerSetting(
    "SOCKET_IDLE_MS",
    600_000,
    100,
    86_400_000,
    "A WebSocket on which no answer was asked for in this time is closed.",
  ),
  socketAgeMs: integerSetting(
    "SOCKET_AGE_MS",
    3_600_000,
    100,
    86_400_000,
    "A WebSocket older than this is closed, once its answer is complete.",
  ),
  keptBytesMax: integerSetting(
    "KEPT_BYTES_MAX",
    memoryShare(12, 256 * mebibyte),
    0,
    64 * 1024 * mebibyte,
    "Bytes of conversations that one ingress keeps at most, 4/5 of them for one key alone, each for as long as its WebSocket is open, so that the next turn may bring only what is new.",
  ),
  operatorPassword: secretSetting(
    "OPERATOR_PASSWORD",
    "Switches job inspection on, at /queues of the operations port; the user's name is `operator`.",
  ),
};

export type IngressConfig = ReturnType<typeof ingressConfigOf>;

export function ingressConfigOf(environment: Record<string, string | undefined>) {
  const config = readSettings(ingressSettings, environment);
  /** A body that an ingress without any other would refuse is too large, not too much at once. */
  return {
    ...config,
    bodyBytesMax: Math.min(config.bodyBytesMax, largestClaimOf(config.bodiesBytesMax, smallBodyBytesMax)),
  };
}
