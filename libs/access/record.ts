/** The record of a key, which contains everything but the key itself. */
import Type from "typebox";
import { Compile } from "typebox/compile";
import { addressesMax, tagLengthMax, tagsMax } from "./bounds.ts";
import { limitsSchema } from "./limits.ts";
import { originForm, originsMax } from "./origins.ts";
import { priorityNames } from "./priority.ts";

const time = (description: string) => Type.Integer({ minimum: 0, description });

/** Paths of the API have names of accounts, and no path can have `.` or `..`. */
export const accountForm = /^(?!\.{1,2}$)[0-9A-Za-z._@-]{1,100}$/;

/**
 * A name that people can read: with a visible character, and neither control characters nor ones
 * that change the direction of text, which could make it look like another.
 */
export const nameForm =
  /^(?=.*[^\s\p{Default_Ignorable_Code_Point}])[^\p{Cc}\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]*$/u;

const keyRecordSchema = Type.Object({
  id: Type.String({ pattern: "^key_[0-9A-Za-z]{1,64}$" }),
  name: Type.String({ minLength: 1, maxLength: 100 }),
  group: Type.String({ description: "A group of the catalogue." }),
  hint: Type.String({ description: "The last characters of the key." }),
  createdAt: time("Epoch milliseconds."),
  expiresAt: Type.Optional(time("Epoch milliseconds; the key is valid before it. Absent: never expires.")),
  revokedAt: Type.Optional(time("Epoch milliseconds. A revocation is final.")),
  models: Type.Optional(
    Type.Array(Type.String(), { description: "Restricts the key to these model ids, or prefixes followed by `*`." }),
  ),
  account: Type.Optional(
    Type.String({ pattern: accountForm.source, description: "The keys of one account share its limits." }),
  ),
  origins: Type.Optional(
    Type.Array(Type.String({ pattern: originForm.source }), {
      maxItems: originsMax,
      description: "The web origins from which browsers may use the key, in place of those of its group.",
    }),
  ),
  limits: Type.Optional(
    limitsSchema({ description: "The key's own limits; each overrides the same limit of its group's `keyLimits`." }),
  ),
  priority: Type.Optional(
    Type.Enum(priorityNames, { description: "The priority of its requests, in place of that of its group." }),
  ),
  addresses: Type.Optional(
    Type.Array(Type.String(), {
      maxItems: addressesMax,
      description: "The IP addresses and networks (CIDR) from which the key may be used.",
    }),
  ),
  tags: Type.Optional(
    Type.Array(Type.String({ maxLength: tagLengthMax }), {
      maxItems: tagsMax,
      description: "Go into the usage records of the key.",
    }),
  ),
  contentKey: Type.Optional(
    Type.String({
      pattern: "^[0-9A-Za-z_-]{43}$",
      description:
        "The public key (X25519, base64url) for which its account has the content of requests sealed and stored. Absent: none is stored.",
    }),
  ),
  disabledAt: Type.Optional(time("Epoch milliseconds: since when its account is disabled.")),
  protocol: Type.Optional(
    Type.Integer({
      minimum: 1,
      description:
        "The lowest protocol whose processes know all that restricts the key. Others do not serve it. Absent: all do.",
    }),
  ),
  version: Type.Optional(
    Type.Integer({
      minimum: 0,
      description: "Grows with every change in the database; of two versions the higher one counts. Absent: 0.",
    }),
  ),
});

/** Times are epoch milliseconds. Records are never removed, only revoked. */
export type KeyRecord = Readonly<Type.Static<typeof keyRecordSchema>>;

const validator = Compile(keyRecordSchema);

/** Parses a stored record; undefined for anything else. Keeps fields of later versions. */
export function parseRecord(text: string): KeyRecord | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return validator.Check(value) ? Object.freeze(value) : undefined;
  } catch {
    return undefined;
  }
}

export type KeyState = "live" | "expired" | "revoked" | "disabled";

/** `now` in epoch milliseconds. */
export function stateOf(
  { expiresAt, revokedAt, disabledAt }: Pick<KeyRecord, "expiresAt" | "revokedAt" | "disabledAt">,
  now: number,
): KeyState {
  if (revokedAt !== undefined) return "revoked";
  if (disabledAt !== undefined) return "disabled";
  return expiresAt !== undefined && now >= expiresAt ? "expired" : "live";
}

/** Whether the key's own list allows a model. Its group must allow the model too. */
export function allowsModel({ models }: Pick<KeyRecord, "models">, id: string): boolean {
  return models === undefined || models.some((pattern) => namesModel(pattern, id));
}

/** Whether this is the id of the model, or a prefix of it followed by `*`. */
export const namesModel = (pattern: string, id: string): boolean =>
  pattern.endsWith("*") ? id.startsWith(pattern.slice(0, -1)) : id === pattern;

/**
 * Whether a record replaces another one of the same key: a revocation is final, and a higher
 * version replaces a lower one. `laterScript` is the same in Lua.
 */
export function isLater(record: KeyRecord, other: KeyRecord): boolean {
  const [isRevoked, wasRevoked] = [record.revokedAt !== undefined, other.revokedAt !== undefined];
  return isRevoked === wasRevoked ? (record.version ?? 0) > (other.version ?? 0) : isRevoked;
}

/** The fields that this version of the gateway knows. */
export const recordFields = Object.keys(keyRecordSchema.properties) as (keyof KeyRecord)[];
