/**
 * Tickets in the addresses to which Google's clients upload a file: some of them send no key there.
 * A ticket stands for the key that began the upload, for an hour, and for nothing but uploads.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { hashOf } from "#access/key.ts";
import { type KeyRecord, stateOf } from "#access/record.ts";
import { uploadTicketMs } from "../common/bounds.ts";
import type { KeyDirectory } from "./authentication.ts";

/** The beginning of the paths of uploads. */
export const uploadPrefix = "/upload/";

export class UploadTickets {
  readonly #secret: string;

  constructor(secret: string) {
    this.#secret = secret;
  }

  /** `now` in epoch milliseconds. */
  of(apiKey: string, now: number): string {
    const text = `${hashOf(apiKey)}.${now + uploadTicketMs}`;
    return `${text}.${this.#macOf(text).toString("base64url")}`;
  }

  /** The key of the ticket in a request's URL; undefined if none is valid at `now`. */
  async recordOf(url: string, keys: Pick<KeyDirectory, "find" | "look">, now: number): Promise<KeyRecord | undefined> {
    if (!url.startsWith(uploadPrefix)) return undefined;
    const ticket = new URLSearchParams(url.split("?", 2)[1] ?? "").get("ticket") ?? "";
    const [, text, keyHash, end, mac] = /^(([0-9a-f]{64})\.(\d{1,15}))\.([\w-]{43})$/.exec(ticket) ?? [];
    if (text === undefined || keyHash === undefined || mac === undefined) return undefined;
    if (!timingSafeEqual(Buffer.from(mac, "base64url"), this.#macOf(text)) || Number(end) <= now) return undefined;
    const record = keys.find(keyHash) ?? (await keys.look(keyHash).catch(() => undefined));
    return record !== undefined && stateOf(record, now) === "live" ? record : undefined;
  }

  #macOf(text: string): Buffer {
    return createHmac("sha256", this.#secret).update(`sluice upload\n${text}`).digest();
  }
}
