/**
 * The caller's own marks on a request, which go into its usage record: its user, its session, and
 * its tags besides those of the key.
 */
import { isUtf8 } from "node:buffer";
import type { IncomingHttpHeaders } from "node:http";
import { tagLengthMax, tagsMax } from "#access/bounds.ts";
import type { KeyRecord } from "#access/record.ts";
import { type NamedTags, tagsIn } from "#access/tags.ts";
import { tierOf } from "#dialects/neutral/service-tier.ts";
import { warningHeaderOf } from "#operations/exchange.ts";
import { objectOf } from "#wire/json/parse.ts";
import { userLengthMax } from "./bounds.ts";

type Body = Record<string, unknown>;

export interface Labels {
  readonly user: string | null;
  readonly session: string | null;
  readonly tags: readonly string[];
  /** Some of its tags are left out. */
  readonly hasCutTags?: boolean;
  /** Its caller lets it wait for capacity that is left over: `flex`, as OpenAI or Gemini has it. */
  readonly isFlex?: boolean;
}

const none: readonly string[] = [];
export const noLabels: Labels = { user: null, session: null, tags: none };
/** A usage record has no more. */
const recordTagsMax = 2 * tagsMax;

/** Tells callers that tags are left out. */
export const cutTagsHeader = warningHeaderOf([
  `Tags of this request are left out or cut: header and body may have ${tagsMax} each, ${recordTagsMax} with those of the key, of ${tagLengthMax} characters.`,
]);

/** Longer names of sessions are ignored. */
const sessionLengthMax = 255;

/**
 * Headers that name a session, the gateway's own first. The last three are those of Claude Code and
 * of Codex, in its older and newer versions.
 */
const sessionHeaders = [
  "x-sluice-session",
  "x-session-affinity",
  "x-claude-code-session-id",
  "session_id",
  "session-id",
] as const;

/** The first that can be the name of a session. */
export const sessionNameIn = (values: readonly unknown[]): string | undefined =>
  values.find(
    (value): value is string => typeof value === "string" && value !== "" && value.length <= sessionLengthMax,
  );

/**
 * The session that a request names: headers count before the body's `prompt_cache_key`
 * (OpenAI), `metadata.session_id`, and the session in Claude Code's `metadata.user_id`.
 */
export function sessionNameOf(headers: IncomingHttpHeaders, body?: Body): string | undefined {
  for (const name of sessionHeaders) {
    const header = headers[name];
    const session = typeof header === "string" ? sessionNameIn([headerTextOf(header)]) : undefined;
    if (session !== undefined) return session;
  }
  if (body === undefined) return undefined;
  const { session_id, user_id } = objectOf(body.metadata);
  return sessionNameIn([body.prompt_cache_key, session_id, claudeCodeIdsIn(user_id)?.session]);
}

/**
 * The header `x-sluice-user` counts before the body's `safety_identifier` and `user` (OpenAI) and
 * `metadata.user_id` (Anthropic). Tags are those of the key, of the header `x-sluice-tags`, and of
 * `metadata.tags`.
 */
export function labelsOf(key: Pick<KeyRecord, "tags">, headers: IncomingHttpHeaders, body?: Body): Labels {
  const { "x-sluice-tags": tagsHeader, "x-sluice-user": named } = headers;
  const user = typeof named === "string" && named !== "" ? headerTextOf(named) : body && userIn(body);
  const own = key.tags ?? none;
  const added: NamedTags[] = [
    ...(typeof tagsHeader === "string" ? [tagsIn(headerTextOf(tagsHeader))] : []),
    ...(body === undefined ? [] : tagsInBody(body)),
  ];
  const tags = added.length === 0 ? own : [...new Set([own, ...added.map((named) => named.tags)].flat())];
  return {
    user: user?.slice(0, userLengthMax) ?? null,
    session: sessionNameOf(headers, body) ?? null,
    tags: tags.length > recordTagsMax ? tags.slice(0, recordTagsMax) : tags,
    ...((tags.length > recordTagsMax || added.some(({ isCut }) => isCut)) && { hasCutTags: true }),
    ...(body !== undefined && tierOf(body.service_tier ?? body.serviceTier) === "flex" && { isFlex: true }),
  };
}

/** OpenAI's metadata are texts; other gateways have lists of tags there. */
function tagsInBody({ metadata }: Body): NamedTags[] {
  const { tags } = objectOf(metadata);
  const text = Array.isArray(tags)
    ? tags
        .slice(0, tagsMax + 1)
        .filter((tag) => typeof tag === "string")
        .join(",")
    : tags;
  return typeof text === "string" ? [tagsIn(text)] : [];
}

/** Node reads a header's bytes as Latin-1. They are UTF-8 where they are valid as such. */
function headerTextOf(header: string): string {
  const bytes = Buffer.from(header, "latin1");
  return isUtf8(bytes) ? bytes.toString("utf8") : header;
}

function userIn({ safety_identifier, user, metadata }: Body): string | undefined {
  const { user_id } = objectOf(metadata);
  const places = [safety_identifier, user, claudeCodeIdsIn(user_id)?.user, user_id];
  return places.find((place): place is string => typeof place === "string" && place !== "");
}

/** Before version 2.1.78. The account is empty for a user of a gateway. */
const claudeCodeUserId = /^user_(?<device>[0-9a-f]+)_account_(?<account>[0-9a-f-]*)_session_(?<session>[0-9a-f-]+)$/;
/** That of Claude Code has 200; settings can add members. */
const claudeCodeUserIdLengthMax = 2_000;

/**
 * Claude Code puts its device, account and session into one `user_id`, which is another one in each
 * session. The user is the account, or else the device.
 */
function claudeCodeIdsIn(userId: unknown): { user: unknown; session: unknown } | undefined {
  if (typeof userId !== "string" || userId.length > claudeCodeUserIdLengthMax) return undefined;
  const earlier = claudeCodeUserId.exec(userId)?.groups;
  if (earlier !== undefined) return { user: earlier.account || earlier.device, session: earlier.session };
  if (!userId.startsWith("{")) return undefined;
  try {
    const { device_id, account_uuid, session_id } = objectOf(JSON.parse(userId));
    return { user: account_uuid || device_id, session: session_id };
  } catch {
    return undefined;
  }
}
