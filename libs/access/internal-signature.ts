/**
 * Signs the requests that ingresses and control send each other, in place of an API key. A
 * signature is for one request: its receiver, method and URL, and what it claims about the caller.
 * It does not cover the body, which is streamed.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { madeUpSecret, secretSetting } from "#service/config.ts";
import { internalSignatureMs, internalSignaturesMax } from "./bounds.ts";

export const internalSecretSetting = secretSetting(
  "INTERNAL_SECRET",
  "Signs the requests that ingresses and control send each other: both have the same one. Without it, callers cannot upload files.",
  madeUpSecret,
);

/** In lower case, as Node has headers. */
export const internalSignatureHeader = "x-sluice-internal";

export interface InternalRequest {
  receiver: "ingress" | "control";
  method: string;
  /** The path with its query, as the receiver gets it. */
  url: string;
}

/** The statement of the sender about a request. The receiver trusts it. */
export type InternalClaims = Readonly<Record<string, string>>;

/** Marks an answer of control whose body is a neutral failure. */
export const internalFailureHeader = "x-sluice-failure";

/** The name of a file that control sends, percent-encoded. */
export const internalNameHeader = "x-sluice-name";

/** An ingress's statement about the caller whose request it passes on to control. */
export type CallerClaims = InternalClaims & {
  /** The id of the caller's key. */
  key: string;
  account: string;
  group: string;
  request: string;
  /** The address under which the caller reaches the gateway, such as `https://api.example.com`. */
  origin: string;
};

/** The value of the header. `now` in epoch milliseconds. */
export function signInternal(secret: string, request: InternalRequest, claims: InternalClaims, now: number): string {
  const encoded = Buffer.from(JSON.stringify(claims)).toString("base64url");
  const signedText = `${now + internalSignatureMs}.${randomBytes(12).toString("base64url")}.${encoded}`;
  return `${signedText}.${macOf(secret, request, signedText).toString("base64url")}`;
}

/** Accepts each signature once. */
export class InternalVerifier {
  readonly #secret: string;
  readonly #acceptedMax: number;
  /** The end of each accepted signature, by its MAC, from the first that was accepted. */
  readonly #accepted = new Map<string, number>();

  constructor(secret: string, acceptedMax = internalSignaturesMax) {
    this.#secret = secret;
    this.#acceptedMax = acceptedMax;
  }

  /**
   * The claims of a request; undefined for a header that is not valid, has expired, or was accepted
   * before. Of more signatures than are remembered, the oldest are forgotten. `now` in epoch
   * milliseconds.
   */
  verify(header: unknown, request: InternalRequest, now: number): InternalClaims | undefined {
    if (typeof header !== "string") return undefined;
    const [, signedText, expiresAt, claims, mac] =
      /^((\d{1,15})\.[\w-]{16}\.([\w-]+))\.([\w-]{43})$/.exec(header) ?? [];
    if (signedText === undefined || claims === undefined || mac === undefined) return undefined;
    const present = Buffer.from(mac, "base64url");
    const end = Number(expiresAt);
    if (!timingSafeEqual(present, macOf(this.#secret, request, signedText))) return undefined;
    if (end <= now || end > now + 2 * internalSignatureMs) return undefined;
    const name = present.toString("base64url");
    if (this.#accepted.has(name)) return undefined;
    this.#forget(now);
    this.#accepted.set(name, end);
    return JSON.parse(Buffer.from(claims, "base64url").toString()) as InternalClaims;
  }

  #forget(now: number): void {
    for (const [name, end] of this.#accepted) {
      if (end > now && this.#accepted.size < this.#acceptedMax) return;
      this.#accepted.delete(name);
    }
  }
}

function macOf(secret: string, { receiver, method, url }: InternalRequest, signedText: string): Buffer {
  return createHmac("sha256", secret)
    .update(["sluice internal", receiver, method, url, signedText].join("\n"))
    .digest();
}
