/** Measures how deep and how large JSON is before it is parsed. */
import { closeBrace, closeBracket, colon, comma, endOfString, openBrace, openBracket, quote } from "./bytes.ts";

export interface JsonBounds {
  /** Levels of objects and arrays. */
  depthMax: number;
  /** Objects and arrays. */
  containersMax: number;
  /** Members of all objects together. Distinct names take the longest to parse per byte. */
  membersMax: number;
  /** Values of every kind, of members and elements; an empty object or array counts as two. */
  valuesMax: number;
}

/**
 * Bounds on the recursion, the memory and the time that a request takes to read. The largest
 * requests of coding agents, of 2 MB, come to a tenth of them; lists of token ids for embeddings
 * are the reason for the many values.
 */
export const requestBounds: JsonBounds = {
  depthMax: 200,
  containersMax: 100_000,
  membersMax: 200_000,
  valuesMax: 1_000_000,
};

/**
 * The first bound that the bytes exceed; undefined if none. Requires valid JSON; linear in the
 * bytes.
 */
export function boundBroken(
  bytes: Buffer,
  { depthMax, containersMax, membersMax, valuesMax }: JsonBounds,
): keyof JsonBounds | undefined {
  let depth = 0;
  let containers = 0;
  let members = 0;
  /**
   * No comma precedes the first value of a container, so it is counted with its container, which
   * may be empty.
   */
  let commas = 0;
  for (let at = 0; at < bytes.length; at++) {
    switch (bytes[at]) {
      case quote:
        at = endOfString(bytes, at) - 1;
        if (at < 0) return undefined;
        break;
      case openBrace:
      case openBracket:
        if (++depth > depthMax) return "depthMax";
        if (++containers > containersMax) return "containersMax";
        break;
      case closeBrace:
      case closeBracket:
        depth--;
        break;
      case colon:
        if (++members > membersMax) return "membersMax";
        break;
      case comma:
        if (++commas + containers > valuesMax) return "valuesMax";
        break;
    }
  }
  return undefined;
}

/** As `boundBroken`, for a text: whether it exceeds a bound. */
export const exceedsBounds = (text: string, bounds: JsonBounds) =>
  // Each level needs an opening and a closing bracket; each container and each member two
  // characters as well.
  text.length > 2 * Math.min(...Object.values(bounds)) && boundBroken(Buffer.from(text), bounds) !== undefined;
