/** Operations on the API keys of accounts. */
import Type from "typebox";
import { addressesMax, tagLengthMax, tagsMax } from "#access/bounds.ts";
import { type LimitsChange, limitNames, limitScopes, limitsSchema } from "#access/limits.ts";
import { originForm, originsMax } from "#access/origins.ts";
import { priorityNames } from "#access/priority.ts";
import {
  changeOf,
  flag,
  group,
  id,
  integer,
  listOf,
  money,
  name,
  object,
  oneOf,
  optional,
  orNull,
  pageOf,
  pageQuery,
  strict,
  strictObject,
  text,
  time,
} from "./common.ts";
import type { Operation } from "./operation.ts";

const list = (itemLengthMax: number, itemsMax: number, description: string) =>
  Type.Array(Type.String({ minLength: 1, maxLength: itemLengthMax }), { maxItems: itemsMax, description });

const limits = limitsSchema({ ...strict, description: "Each overrides the limit of its group's keys." });
const limitsChange = Type.Unsafe<LimitsChange>(
  Type.Object(
    Object.fromEntries(Object.entries(limits.properties).map(([name, limit]) => [name, Type.Optional(orNull(limit))])),
    { ...strict, description: "A limit that is absent stays, and null removes it." },
  ),
);

/** The settings of a key, which people decide. */
const settings = {
  name: name("For people."),
  group,
  models: orNull(list(129, 500, "Model ids, or prefixes followed by `*`; null for all of its group.")),
  expiresAt: orNull(time("The key is valid before it; null for ever.")),
  limits: orNull(limits),
  addresses: orNull(list(50, addressesMax, "Addresses and networks (CIDR) that may use the key; null for any.")),
  origins: orNull(
    Type.Array(Type.String({ pattern: originForm.source }), {
      maxItems: originsMax,
      description: "Web origins whose pages may use the key; null for those of its group.",
    }),
  ),
  priority: orNull(
    oneOf(
      priorityNames,
      "Of its requests on a busy queue; null for that of its group. Only operators may set a higher one.",
    ),
  ),
  tags: list(tagLengthMax, tagsMax, "In every usage record of the key."),
};

const spend = (description: string) =>
  Type.Object(
    {
      isPartial: flag("Whether these amounts leave out units without a price, so that they are lower bounds."),
      today: money("Since midnight (UTC)."),
      month: money("Since the first of the month (UTC)."),
      total: money("Ever."),
    },
    { description },
  );

const amount = (description: string) => Type.String({ pattern: "^\\d+(\\.\\d+)?$", description });

const standing = object({
  scope: oneOf(limitScopes, "The owner of the limit."),
  subject: text(
    "The id of the key or the account, the name of the group, or the account with a tag of the key or a model.",
  ),
  limit: oneOf(limitNames, "The name of the limit."),
  max: amount("The limit itself."),
  used: amount("Of it: requests or tokens of the last minute, running generations, or money spent."),
  reserved: amount("Money that running generations reserve in addition; 0 for others than budgets."),
  remaining: amount("What is left."),
  resetsAt: orNull(
    time("When all of it is available again: for budgets the end of the period. Null if there is no such time."),
  ),
});

const key = object({
  id: id("The id of the key, which is no secret."),
  account: id("The account that it belongs to."),
  hint: text("Its last characters."),
  state: oneOf(["live", "expired", "revoked", "disabled"], "disabled: its account is."),
  ...settings,
  createdAt: time("When it was created."),
  revokedAt: orNull(time("When it was revoked, which is final.")),
  replacedBy: orNull(id("The key that replaces it since a rotation.")),
  lastUsedAt: orNull(time("The receipt of its latest generation that the ledger has.")),
  spend: spend("In the catalogue's currency."),
});

const newKey = object({
  ...key.properties,
  key: text("The key itself, shown only here."),
});
const params = object({ key: id("The id of a key.") });
const { name: keyName, group: keyGroup, ...others } = settings;

export const keyOperations = {
  listKeys: {
    method: "GET",
    path: "/keys",
    summary: "Lists keys, newest first.",
    access: "reader",
    query: strictObject({
      ...pageQuery,
      account: optional(id("Only keys of this account.")),
      state: optional(oneOf(["live", "expired", "revoked"])),
      search: optional(Type.String({ maxLength: 100, description: "A part of the name, the id or the hint." })),
    }),
    answer: pageOf(key),
  },
  createKey: {
    method: "POST",
    path: "/keys",
    summary: "Creates a key. The answer shows it once.",
    access: "member",
    body: strictObject({
      account: id("The account that it belongs to."),
      name: keyName,
      group: keyGroup,
      ...Type.Partial(object(others)).properties,
    }),
    answer: newKey,
    status: 201,
  },
  getKey: {
    method: "GET",
    path: "/keys/:key",
    summary: "Shows a key without its secret.",
    access: "reader",
    params,
    answer: key,
  },
  getKeyLimits: {
    method: "GET",
    path: "/keys/:key/limits",
    summary:
      "Shows how much of each limit of a key and its account is used now, for operators also of its group, and what the account has spent.",
    access: "reader",
    params,
    answer: object({
      limits: listOf(standing),
      accountSpend: spend("Of all keys of the account."),
    }),
  },
  updateKey: {
    method: "PATCH",
    path: "/keys/:key",
    summary: "Changes a key. Every ingress follows within a second.",
    access: "member",
    params,
    body: changeOf({ ...settings, limits: orNull(limitsChange) }),
    answer: key,
  },
  rotateKey: {
    method: "POST",
    path: "/keys/:key/rotate",
    summary: "Creates a key with the same settings; the old one stays valid for a while.",
    access: "member",
    params,
    body: strictObject({
      overlapSeconds: Type.Integer({
        minimum: 0,
        maximum: 30 * 86_400,
        description: "How long the old key stays valid.",
      }),
    }),
    answer: newKey,
    status: 201,
  },
  revokeKey: {
    method: "POST",
    path: "/keys/:key/revoke",
    summary: "Revokes a key, which is final. Its running generations end.",
    access: "member",
    params,
    answer: key,
  },
  rebuildKeys: {
    method: "POST",
    path: "/keys/rebuild",
    summary: "Compares the keys in Redis, which ingresses follow, with the database, and writes what differs.",
    access: "operator",
    answer: object({
      keys: integer("Keys of the database."),
      written: integer("Keys that Redis lacked, or had in another state."),
      imported: integer("Keys that only Redis had: they are in the database now."),
    }),
  },
} as const satisfies Record<string, Operation>;
