/** POST /v1/realtime/client_secrets */
import { randomUUID } from "node:crypto";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { hashOf } from "#access/key.ts";
import { isGiven, objectOf, parsedObject, textOf } from "#dialects/json.ts";
import type { Clock } from "#service/clock.ts";
import type { Admission } from "../../admission/admission.ts";
import { clientSecretBodyBytesMax } from "../../bounds.ts";
import { apiKeyOf, type KeyDirectory } from "../../http/authentication.ts";
import { clientSecretOf } from "../../http/client-secrets.ts";
import { Refused } from "../../http/refused.ts";

/** In seconds, as at OpenAI. */
const lifeMin = 10;
const lifeMax = 7_200;
const lifeDefault = 600;

export interface ClientSecretOptions {
  admission: Admission;
  keys: KeyDirectory;
  clock: Clock;
}

const invalid = (message: string, param?: string) =>
  new Refused({ code: "invalid_request", message, ...(param !== undefined && { param }) });

export function addClientSecretRoute(
  scope: FastifyInstance,
  path: string,
  { admission, keys, clock }: ClientSecretOptions,
): void {
  scope.post(path, { bodyLimit: clientSecretBodyBytesMax }, (request: FastifyRequest) => {
    const body = parsedObject(request.bytes);
    if (body === undefined) throw invalid("The body must be a JSON object.");
    const { model: named, ...session } = objectOf(body.session);
    if (session.type !== "realtime")
      throw invalid("'session.type' must be realtime: sessions of other types are not supported.", "session.type");
    const model = textOf(named);
    if (model === undefined) throw invalid("'session.model' must name a model.", "session.model");
    admission.modelFor(request, model);
    const now = clock.epoch();
    const expiresAt = now + lifeOf(body.expires_after) * 1_000;
    const hash = hashOf(apiKeyOf(keys, now, request));
    return {
      value: clientSecretOf(hash, request.caller.id, { expiresAt, model, session }),
      expires_at: Math.floor(expiresAt / 1_000),
      session: { object: "realtime.session", id: `sess_${randomUUID().replaceAll("-", "")}`, ...session, model },
    };
  });
}

function lifeOf(value: unknown): number {
  const { anchor = "created_at", seconds = lifeDefault } = objectOf(value);
  if (isGiven(value) && anchor !== "created_at")
    throw invalid("'expires_after.anchor' must be created_at.", "expires_after.anchor");
  if (typeof seconds === "number" && Number.isInteger(seconds) && seconds >= lifeMin && seconds <= lifeMax)
    return seconds;
  throw invalid(
    `'expires_after.seconds' must be a whole number from ${lifeMin} to ${lifeMax}.`,
    "expires_after.seconds",
  );
}
