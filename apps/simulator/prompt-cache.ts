/**
 * The prompt caches of vendors, by their published rules. A cache belongs to a model and to the
 * organisation or workspace of a credential.
 *
 * - Anthropic: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
 * - OpenAI: https://platform.openai.com/docs/guides/prompt-caching
 */
import { hash } from "node:crypto";
import { setNewest } from "#service/newest.ts";
import { promptTokensOf } from "./answer/chunks.ts";

/** A block of a prompt in its order: tools, system, messages. */
export interface CacheBlock {
  text: string;
  tokens: number;
  /** How long the prompt up to this block is cached; undefined for a block without a mark. */
  ttl: "5m" | "1h" | undefined;
}

/** In prompt tokens. */
export interface CacheUse {
  read: number;
  written: number;
  /** Part of those written: for one hour. */
  writtenForHour: number;
}

/** A cache of one model and organisation. */
export interface PromptCache {
  marked(blocks: readonly CacheBlock[], tokensMin: number): CacheUse;
  automatic(texts: readonly string[], key: string): CacheUse;
}

const ttlMs = { "5m": 300_000, "1h": 3_600_000 };
/** Positions that are compared for each mark, the marked one included. */
const lookbackMax = 20;
/** The smallest prompt that OpenAI caches, and the step of its prefixes. */
const automaticTokensMin = 1_024;
const stepTokens = 128;
const bytesPerToken = 4;
/** An idle prefix is kept for 5 to 10 minutes. */
const idleMs = 600_000;
const entriesMax = 200_000;

/** `now` is in ms, from any origin. */
export function createPromptCaches(now: () => number): (scope: string) => PromptCache {
  const entries = new Map<string, { until: number; lifeMs: number }>();
  const put = (key: string, lifeMs: number) => setNewest(entries, key, { until: now() + lifeMs, lifeMs }, entriesMax);
  /** A read lengthens the life of an entry at no cost. */
  const hits = (key: string) => {
    const entry = entries.get(key);
    if (entry === undefined || entry.until <= now()) return false;
    put(key, entry.lifeMs);
    return true;
  };
  const keysOf = (scope: string, texts: readonly string[]) => {
    let key = scope;
    return texts.map((text) => {
      key = hash("sha256", `${key}\n${text}`);
      return key;
    });
  };

  const marked = (scope: string, blocks: readonly CacheBlock[], tokensMin: number): CacheUse => {
    const keys = keysOf(
      scope,
      blocks.map(({ text }) => text),
    );
    let sum = 0;
    const sums = blocks.map(({ tokens }) => {
      sum += tokens;
      return sum;
    });
    // A shorter prompt is processed without a cache, and without an error.
    const marks = blocks.flatMap(({ ttl }, index) =>
      ttl !== undefined && (sums[index] as number) >= tokensMin ? [{ index, ttl }] : [],
    );
    let hit = -1;
    for (const { index } of marks)
      for (let place = index; place > index - lookbackMax && place > hit; place--)
        if (hits(keys[place] ?? "")) hit = place;
    for (const { index, ttl } of marks) put(keys[index] as string, ttlMs[ttl]);
    const read = sums[hit] ?? 0;
    const writtenTo = (last: { index: number } | undefined) => Math.max(0, (sums[last?.index ?? -1] ?? 0) - read);
    return {
      read,
      written: writtenTo(marks.at(-1)),
      writtenForHour: writtenTo(marks.findLast(({ ttl }) => ttl === "1h")),
    };
  };

  /** The key is a part of what chooses the machine that has the cache. */
  const automatic = (scope: string, texts: readonly string[], key: string): CacheUse => {
    const text = texts.join("\n");
    const steps = Math.floor(promptTokensOf(text) / stepTokens);
    const stepLength = stepTokens * bytesPerToken;
    const bytes = Buffer.from(text);
    const keys = keysOf(
      `${scope} ${key}`,
      Array.from({ length: steps }, (_, step) => bytes.toString("latin1", step * stepLength, (step + 1) * stepLength)),
    );
    const first = automaticTokensMin / stepTokens - 1;
    let cached = 0;
    for (let step = first; step < steps; step++) if (hits(keys[step] as string)) cached = step + 1;
    for (let step = first; step < steps; step++) put(keys[step] as string, idleMs);
    return { read: cached * stepTokens, written: 0, writtenForHour: 0 };
  };

  return (scope) => ({
    marked: (blocks, tokensMin) => marked(scope, blocks, tokensMin),
    automatic: (texts, key) => automatic(scope, texts, key),
  });
}
