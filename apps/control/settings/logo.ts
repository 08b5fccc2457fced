/**
 * The logo of the installation: checked when it is stored, and served so that browsers only ever
 * show it.
 */
import { createHash } from "node:crypto";
import type { FastifyInstance } from "fastify";
import { logoBytesMax } from "#api/settings.ts";
import { Fault } from "../api/faults.ts";

export interface Logo {
  type: string;
  bytes: Buffer;
  /** Changes with its content. */
  address: string;
}

export interface StoredLogo {
  type: string;
  /** In base64. */
  data: string;
}

const path = "/logo";
/** Pixels on each side. */
const sideMax = 4_096;
const pngSignature = Buffer.from("89504e470d0a1a0a", "hex");
/** An XML declaration, comments and a document type may come before the element. */
const svgStart = /^\ufeff?\s*(<\?xml[^>]*\?>\s*)?(<!--[\s\S]*?-->\s*|<!doctype svg[^>[]*>\s*)*<svg[\s>]/i;

/** Reads a data URL. Throws a Fault for a file that is no PNG or SVG, or that is too large. */
export function storedLogoOf(dataUrl: string): StoredLogo {
  const [, type = "", data = ""] = /^data:([^;]+);base64,(.*)$/.exec(dataUrl) ?? [];
  const bytes = Buffer.from(data, "base64");
  const refuse = (why: string) => new Fault("invalid", `The logo ${why}.`, { field: "logo" });
  if (bytes.length > logoBytesMax) throw refuse(`is larger than ${logoBytesMax} bytes`);
  if (type === "image/png") {
    const isPng = bytes.length > 24 && bytes.subarray(0, 8).equals(pngSignature);
    if (!isPng) throw refuse("is not a PNG file");
    // https://www.w3.org/TR/png/#11IHDR
    if (Math.max(bytes.readUInt32BE(16), bytes.readUInt32BE(20)) > sideMax)
      throw refuse(`has more than ${sideMax} pixels on a side`);
  } else if (!svgStart.test(bytes.toString())) throw refuse("is not an SVG file");
  return { type, data: bytes.toString("base64") };
}

export function logoOf({ type, data }: StoredLogo): Logo {
  const bytes = Buffer.from(data, "base64");
  const digest = createHash("sha256").update(bytes).digest("hex").slice(0, 16);
  return { type, bytes, address: `${path}?${digest}` };
}

/** Adds the route. A logo that somebody opens by itself runs no script and loads nothing. */
export function addLogo(server: FastifyInstance, logo: () => Logo | null): void {
  server.get(path, { schema: { hide: true } }, (_request, reply) => {
    const current = logo();
    if (current === null) throw new Fault("not_found", "There is no logo.");
    return reply
      .headers({
        "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'",
        "cache-control": "public, max-age=86400",
      })
      .type(current.type)
      .send(current.bytes);
  });
}
