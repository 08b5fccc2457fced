/**
 * Short-lived credentials for one session of OpenAI's Realtime, which a server creates with its API key for a page in a browser:
 * https://platform.openai.com/docs/api-reference/realtime-sessions/create-realtime-client-secret. A secret carries its session, sealed with a key derived from the
 * hash of the API key, which only ingresses and Redis have. Nothing is stored, and a revoked API key revokes its secrets.
 */
import type { KeyRecord } from "#access/record.ts";
import { stateOf } from "#access/record.ts";
import { parsedObject } from "#dialects/json.ts";
import { Sealing } from "../stored/sealing.ts";

const prefix = "ek_";
const form = /^ek_(key_[0-9A-Za-z]{1,64})\.([A-Za-z0-9_-]{1,16384})$/;
const sealedName = "client secret";

/** What a client secret allows. */
export interface Grant {
  record: KeyRecord;
  /** The catalogue's id of the model. */
  model: string;
  /** The settings with which the session begins, in OpenAI's format. */
  session: Record<string, unknown>;
}

interface Sealed extends Pick<Grant, "model" | "session"> {
  /** Epoch milliseconds. */
  expiresAt: number;
}

/** `hash` is that of the API key. */
export function clientSecretOf(hash: string, keyId: string, sealed: Sealed): string {
  const bytes = Sealing.of(hash, keyId).seal(sealedName, Buffer.from(JSON.stringify(sealed)));
  return `${prefix}${keyId}.${bytes.toString("base64url")}`;
}

/** What a credential allows at `now` (epoch milliseconds); undefined for anything but a valid client secret. */
export function grantOf(
  credential: string,
  keys: { findById(id: string): { hash: string; record: KeyRecord } | undefined },
  now: number,
): Grant | undefined {
  const [, id = "", text = ""] = form.exec(credential) ?? [];
  const found = id === "" ? undefined : keys.findById(id);
  if (found === undefined || stateOf(found.record, now) !== "live") return undefined;
  const bytes = Sealing.of(found.hash, id).open(sealedName, Buffer.from(text, "base64url"));
  const sealed = bytes && (parsedObject(bytes) as Sealed | undefined);
  if (sealed === undefined || now >= sealed.expiresAt) return undefined;
  return { record: found.record, model: sealed.model, session: sealed.session };
}
