/** POST /v1/realtime/client_secrets */
import type { FastifyInstance, FastifyRequest } from "fastify";
import { hashOf } from "#access/key.ts";
import type { Failure } from "#dialects/errors.ts";
import { randomHex } from "#service/random-hex.ts";
import { isObject, isPresent, objectOf, textOf } from "#wire/json/parse.ts";
import type { Admission } from "../admission/admission.ts";
import { clientSecretBodyBytesMax, clientSecretsMax } from "../common/bounds.ts";
import { outlastRedis, type RedisWait } from "../common/outlast-redis.ts";
import { Refusal, refusalOf, valueOrThrow } from "../common/refusal.ts";
import { readJson } from "../request/body.ts";
import type { ClientSecrets } from "../server/client-secrets.ts";

/** In seconds, as at OpenAI. */
const lifeMin = 10;
const lifeMax = 7_200;
const lifeDefault = 600;

export interface ClientSecretOptions extends RedisWait {
  admission: Admission;
  clientSecrets: ClientSecrets;
}

const tooMany: Failure = {
  code: "rate_limited",
  message: `This key has ${clientSecretsMax} client secrets that are not expired, as many as it may; try again later.`,
  retryAfterSeconds: lifeMin,
};

export function addClientSecretRoute(scope: FastifyInstance, path: string, options: ClientSecretOptions): void {
  const { admission, clock, clientSecrets } = options;
  scope.post(path, { bodyLimit: clientSecretBodyBytesMax }, async (request: FastifyRequest) => {
    const body = valueOrThrow(readJson(request.bytes));
    if (!isObject(body)) throw refusalOf("The body must be a JSON object.");
    const { model: named, ...session } = objectOf(body.session);
    if (session.type !== "realtime")
      throw refusalOf("'session.type' must be realtime: sessions of other types are not supported.", "session.type");
    const model = textOf(named);
    if (model === undefined) throw refusalOf("'session.model' must name a model.", "session.model");
    valueOrThrow(admission.modelFor(request, model));
    const seconds = lifeOf(body.expires_after);
    const now = clock.epoch();
    const sealed = { keyHash: hashOf(request.apiKey), model, session };
    const create = () => clientSecrets.create(request.caller.id, sealed, seconds * 1_000);
    const value = await outlastRedis(options, create);
    if (value === undefined) throw new Refusal(tooMany);
    return {
      value,
      expires_at: Math.floor(now / 1_000) + seconds,
      session: { object: "realtime.session", id: `sess_${randomHex()}`, ...session, model },
    };
  });
}

function lifeOf(value: unknown): number {
  const { anchor = "created_at", seconds = lifeDefault } = objectOf(value);
  if (isPresent(value) && anchor !== "created_at")
    throw refusalOf("'expires_after.anchor' must be created_at.", "expires_after.anchor");
  if (typeof seconds === "number" && Number.isInteger(seconds) && seconds >= lifeMin && seconds <= lifeMax)
    return seconds;
  throw refusalOf(
    `'expires_after.seconds' must be a whole number from ${lifeMin} to ${lifeMax}.`,
    "expires_after.seconds",
  );
}
