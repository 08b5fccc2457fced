/** What is known of a key: all but the key. */
import Type from "typebox";
import { Compile } from "typebox/compile";

const time = (description: string) => Type.Integer({ minimum: 0, description });

export const accountForm = /^[0-9A-Za-z._@-]{1,100}$/;

const count = Type.Optional(Type.Integer({ minimum: 1 }));
const money = Type.Optional(Type.Number({ minimum: 0 }));

const keyRecordSchema = Type.Object({
  id: Type.String({ pattern: "^key_[0-9A-Za-z]{1,64}$" }),
  name: Type.String({ minLength: 1, maxLength: 100 }),
  group: Type.String({ description: "A group of the catalogue." }),
  hint: Type.String({ description: "The last characters of the key." }),
  createdAt: time("Epoch milliseconds."),
  expiresAt: Type.Optional(time("Epoch milliseconds; valid before it. Absent: never expires.")),
  revokedAt: Type.Optional(time("Epoch milliseconds. Never taken back.")),
  models: Type.Optional(
    Type.Array(Type.String(), {
      description: "Model ids, or beginnings followed by `*`, to which the key is further restricted.",
    }),
  ),
  account: Type.Optional(
    Type.String({ pattern: accountForm.source, description: "Whose key it is: keys of one account share its limits." }),
  ),
  limits: Type.Optional(
    Type.Object(
      {
        requestsPerMinute: count,
        tokensPerMinute: count,
        generationsMax: count,
        budgetPerDay: money,
        budgetPerMonth: money,
      },
      { description: "In place of those that its group gives to each key." },
    ),
  ),
});

/** Times are epoch milliseconds. Records are never removed, only revoked. */
export type KeyRecord = Readonly<Type.Static<typeof keyRecordSchema>>;

const validator = Compile(keyRecordSchema);

/** A stored record; undefined for anything else. Fields of later versions are kept. */
export function parseRecord(text: string): KeyRecord | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return validator.Check(value) ? Object.freeze(value) : undefined;
  } catch {
    return undefined;
  }
}

export type KeyState = "live" | "expired" | "revoked";

/** `now` in epoch milliseconds. */
export function stateOf({ expiresAt, revokedAt }: KeyRecord, now: number): KeyState {
  if (revokedAt !== undefined) return "revoked";
  return expiresAt !== undefined && now >= expiresAt ? "expired" : "live";
}

/** Whether the key's own list lets it use a model; its group is another question. */
export function allowsModel({ models }: KeyRecord, id: string): boolean {
  return (
    models === undefined ||
    models.some((pattern) => (pattern.endsWith("*") ? id.startsWith(pattern.slice(0, -1)) : id === pattern))
  );
}
