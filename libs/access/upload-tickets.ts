/**
 * Tickets in the addresses to which Google's clients upload a file: some of them send no key there.
 * A ticket stands for the key that began the upload, for an hour, and for nothing but this upload.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { uploadTicketMs } from "./bounds.ts";
import { type KeyRecord, stateOf } from "./record.ts";

/** The beginning of the paths of uploads. */
export const uploadPrefix = "/upload/";

export class UploadTickets {
  readonly #secret: string;

  /** `secret`: INTERNAL_SECRET. */
  constructor(secret: string) {
    this.#secret = secret;
  }

  /** `now` in epoch milliseconds. */
  of(keyHash: string, upload: string, now: number): string {
    const text = `${keyHash}.${now + uploadTicketMs}`;
    return `${text}.${this.#macOf(text, upload).toString("base64url")}`;
  }

  /**
   * The key of the ticket in a request's URL; undefined if none is valid at `now`. Rejects as
   * `look` does.
   */
  async recordOf(
    url: string,
    keys: { find(hash: string): KeyRecord | undefined; look(hash: string): Promise<KeyRecord | undefined> },
    now: number,
  ): Promise<KeyRecord | undefined> {
    if (!url.startsWith(uploadPrefix)) return undefined;
    const query = new URLSearchParams(url.split("?", 2)[1] ?? "");
    const [, text, keyHash, end, mac] =
      /^(([0-9a-f]{64})\.(\d{1,15}))\.([\w-]{43})$/.exec(query.get("ticket") ?? "") ?? [];
    const [upload, ...others] = query.getAll("upload_id");
    if (text === undefined || keyHash === undefined || mac === undefined) return undefined;
    if (upload === undefined || others.length > 0) return undefined;
    if (!timingSafeEqual(Buffer.from(mac, "base64url"), this.#macOf(text, upload)) || Number(end) <= now)
      return undefined;
    const record = keys.find(keyHash) ?? (await keys.look(keyHash));
    return record !== undefined && stateOf(record, now) === "live" ? record : undefined;
  }

  #macOf(text: string, upload: string): Buffer {
    return createHmac("sha256", this.#secret).update(`sluice upload\n${upload}\n${text}`).digest();
  }
}
