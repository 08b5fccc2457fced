/** The ingress's settings, each with its bounds. */
import { internalSecretSetting } from "#access/internal-signature.ts";
import {
  addressSetting,
  drainSettings,
  integerSetting,
  listenSettings,
  madeUpPassword,
  memoryShare,
  proxySettings,
  readSettings,
  rotatingSecret,
  textSetting,
} from "#service/config.ts";
import { smallBodyBytesMax } from "./bounds.ts";
import { largestClaimOf } from "./capacity.ts";

const mebibyte = 1 << 20;

export const ingressSettings = {
  ...listenSettings,
  ...drainSettings,
  ...proxySettings,
  bodyBytesMax: integerSetting(
    "BODY_BYTES_MAX",
    32 * mebibyte,
    1024,
    512 * mebibyte,
    "The largest request body, in bytes.",
  ),
  bodiesBytesMax: integerSetting(
    "BODIES_BYTES_MAX",
    memoryShare(8, 512 * mebibyte),
    mebibyte,
    64 * 1024 * mebibyte,
    "Bytes of all request bodies in one ingress, each until its answer has begun. One key alone gets 7/10 of them, and no body may be larger than that. In memory a body takes three to five times its size, with its parsed value and garbage that is not collected yet.",
  ),
  answersBytesMax: integerSetting(
    "ANSWERS_BYTES_MAX",
    memoryShare(8, 512 * mebibyte),
    4 * mebibyte,
    64 * 1024 * mebibyte,
    "Bytes of all answers in one ingress that their callers have not taken. One key alone gets 7/10 of them. A key that needs more loses the connections whose callers have taken nothing for longest.",
  ),
  generationsMax: integerSetting(
    "GENERATIONS_MAX",
    10_000,
    1,
    1_000_000,
    "Concurrent generations of one ingress. One key alone gets 4/5 of them.",
  ),
  limitWaitingMax: integerSetting(
    "LIMIT_WAITING_MAX",
    2_000,
    1,
    1_000_000,
    "Requests of one ingress that wait for rate limits (`onLimit: wait`). One key alone gets 4/5 of them. Further ones get a 429 at once.",
  ),
  limitWaitingKeyMax: integerSetting(
    "LIMIT_WAITING_KEY_MAX",
    200,
    1,
    1_000_000,
    "Requests of one key that wait for rate limits in one ingress.",
  ),
  requestTimeoutMs: integerSetting(
    "REQUEST_TIMEOUT_MS",
    60_000,
    1_000,
    3_600_000,
    "The time within which a whole request must arrive, and its headers within a quarter of it. A request with a file has an hour.",
  ),
  uploadBytesPerSecondMin: integerSetting(
    "UPLOAD_BYTES_PER_SECOND_MIN",
    8 * 1024,
    1,
    1024 * mebibyte,
    "The slowest upload of a body or of a WebSocket message. A sender that is UPLOAD_GRACE_MS behind this rate gets a 408.",
  ),
  uploadGraceMs: integerSetting(
    "UPLOAD_GRACE_MS",
    10_000,
    100,
    3_600_000,
    "How far a sender may fall behind UPLOAD_BYTES_PER_SECOND_MIN, and so the longest pause.",
  ),
  sendTimeoutMs: integerSetting(
    "SEND_TIMEOUT_MS",
    60_000,
    100,
    3_600_000,
    "A caller that reads nothing for this long while bytes wait for it is disconnected.",
  ),
  redisWaitMs: integerSetting(
    "REDIS_WAIT_MS",
    8_000,
    0,
    25_000,
    "How long a new request waits while Redis is away, as in a fail-over, before it gets a 503. With 0 it gets one at once.",
  ),
  keepAliveMs: integerSetting(
    "KEEP_ALIVE_MS",
    10_000,
    100,
    3_600_000,
    "A stream that is silent for this long gets a keep-alive.",
  ),
  idempotencyWindowMs: integerSetting(
    "IDEMPOTENCY_WINDOW_MS",
    600_000,
    1_000,
    86_400_000,
    "How long Redis stores the answer of a request with an `Idempotency-Key`, for retries.",
  ),
  idempotencyKeyBytesMax: integerSetting(
    "IDEMPOTENCY_KEY_BYTES_MAX",
    16 * mebibyte,
    0,
    64 * 1024 * mebibyte,
    "Bytes of answers that Redis stores for the callers of one key. An answer that would exceed it is not stored.",
  ),
  idempotencyBytesMax: integerSetting(
    "IDEMPOTENCY_BYTES_MAX",
    128 * mebibyte,
    0,
    64 * 1024 * mebibyte,
    "Bytes of answers that Redis stores for all callers. No answer is stored while Redis uses more than half of its memory.",
  ),
  storedMs: integerSetting(
    "STORED_MS",
    86_400_000,
    1_000,
    31 * 86_400_000,
    "How long Redis stores a response or a conversation after its last use, for callers who refer to it.",
  ),
  storedKeyBytesMax: integerSetting(
    "STORED_KEY_BYTES_MAX",
    64 * mebibyte,
    0,
    64 * 1024 * mebibyte,
    "Bytes of responses and conversations that Redis stores for the callers of one key. Where they are used up, the least recently used ones are removed.",
  ),
  storedBytesMax: integerSetting(
    "STORED_BYTES_MAX",
    256 * mebibyte,
    0,
    64 * 1024 * mebibyte,
    "Bytes of responses and conversations that Redis stores for all callers. Where they are used up, the key that stores most loses its least recently used ones. Nothing is stored while Redis uses more than half of its memory.",
  ),
  aofRewriteMs: integerSetting(
    "AOF_REWRITE_MS",
    3_600_000,
    1_000,
    604_800_000,
    "How often the ingresses make Redis rewrite its append-only file, if it has one. Until then the file contains request bodies and stored answers, also those that Redis has deleted.",
  ),
  responsesWebsocket: textSetting(
    "RESPONSES_WEBSOCKET",
    "on",
    "OpenAI's Responses over WebSockets, at GET /v1/responses. If it is off, callers get a 426 that asks them to use POST.",
    "on or off",
    /^(on|off)$/,
  ),
  socketsMax: integerSetting(
    "SOCKETS_MAX",
    10_000,
    0,
    1_000_000,
    "Concurrent WebSockets of one ingress. One key alone gets 4/5 of them.",
  ),
  socketPingMs: integerSetting(
    "SOCKET_PING_MS",
    30_000,
    100,
    3_600_000,
    "How often a WebSocket is pinged. One without traffic since the last ping is closed.",
  ),
  socketIdleMs: integerSetting(
    "SOCKET_IDLE_MS",
    600_000,
    100,
    86_400_000,
    "A WebSocket without a request for this long is closed, and a session without a message in either direction.",
  ),
  socketAgeMs: integerSetting(
    "SOCKET_AGE_MS",
    3_600_000,
    100,
    86_400_000,
    "A WebSocket older than this is closed, after the answer in progress.",
  ),
  sessionMs: integerSetting(
    "SESSION_MS",
    3_600_000,
    1_000,
    86_400_000,
    "The longest session of OpenAI's Realtime or Gemini's Live. `sessionMs` of a caller's group in the catalogue replaces it.",
  ),
  keptBytesMax: integerSetting(
    "KEPT_BYTES_MAX",
    memoryShare(12, 256 * mebibyte),
    0,
    64 * 1024 * mebibyte,
    "Bytes of conversations that one ingress keeps, each while its WebSocket is open, so that the next turn needs to send only new items. As many again for requests and answers that are stored once the answer is complete. One key alone gets 4/5 of either.",
  ),
  controlUrl: addressSetting(
    "CONTROL_INTERNAL_URL",
    "Where control listens for ingresses (CONTROL_INTERNAL_ADDRESS), such as http://control:8091. Without it, or without INTERNAL_SECRET, callers cannot upload files.",
    "http:// and a host, or unix:<path>",
    /^(unix:.+|http:\/\/[^/\s]+)$/,
  ),
  internalSecret: internalSecretSetting,
  operatorPassword: rotatingSecret(
    "OPERATOR_PASSWORD",
    "Enables job inspection, at /queues of the operations port, for the user `operator`.",
    madeUpPassword,
  ),
};

export type IngressConfig = ReturnType<typeof ingressConfigOf>;

export function ingressConfigOf(environment: Record<string, string | undefined>) {
  const config = readSettings(ingressSettings, environment);
  // A body that even an empty ingress would refuse is too large, rather than one too many.
  return {
    ...config,
    bodyBytesMax: Math.min(config.bodyBytesMax, largestClaimOf(config.bodiesBytesMax, smallBodyBytesMax)),
  };
}
