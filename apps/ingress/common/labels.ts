/**
 * The caller's own marks on a request, which go into its usage record: its user, and its tags
 * besides those of the key.
 */
import { isUtf8 } from "node:buffer";
import type { IncomingHttpHeaders } from "node:http";
import type { KeyRecord } from "#access/record.ts";
import { tagsIn } from "#access/tags.ts";
import { tierOf } from "#dialects/neutral/service-tier.ts";

type Body = Record<string, unknown>;

import { userLengthMax } from "./bounds.ts";

export interface Labels {
  readonly user: string | null;
  readonly tags: readonly string[];
  /** Its caller lets it wait for capacity that is left over: `flex`, as OpenAI or Gemini has it. */
  readonly isFlex?: boolean;
}

const none: readonly string[] = [];

/**
 * The header `x-sluice-user` counts before the body's `safety_identifier` and `user` (OpenAI) and
 * `metadata.user_id` (Anthropic).
 */
export function labelsOf(key: Pick<KeyRecord, "tags">, headers: IncomingHttpHeaders, body?: Body): Labels {
  const { "x-sluice-tags": tagsHeader, "x-sluice-user": named } = headers;
  const user = typeof named === "string" && named !== "" ? headerTextOf(named) : body && userIn(body);
  const own = key.tags ?? none;
  return {
    user: user?.slice(0, userLengthMax) ?? null,
    tags: typeof tagsHeader === "string" ? [...new Set([...own, ...tagsIn(headerTextOf(tagsHeader))])] : own,
    ...(body !== undefined && tierOf(body.service_tier ?? body.serviceTier) === "flex" && { isFlex: true }),
  };
}

/** Node reads a header's bytes as Latin-1. They are UTF-8 where they are valid as such. */
export function headerTextOf(header: string): string {
  const bytes = Buffer.from(header, "latin1");
  return isUtf8(bytes) ? bytes.toString("utf8") : header;
}

function userIn({ safety_identifier, user, metadata }: Body): string | undefined {
  const places = [safety_identifier, user, (metadata as Body | null | undefined)?.user_id];
  return places.find((place): place is string => typeof place === "string" && place !== "");
}
