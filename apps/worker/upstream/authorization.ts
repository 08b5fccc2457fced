/**
 * Authorizes requests to upstreams: headers made from the upstream's credential. Handles secrets,
 * so it logs nothing.
 */

import { createHash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import type { SignatureV4 } from "@smithy/signature-v4";
import type { GoogleAuth } from "google-auth-library";
import type { CatalogueUpstream } from "#catalogue/catalogue.ts";
import { isStoredReference } from "#catalogue/credentials.ts";
import { type Environment, secretOf } from "#catalogue/environment.ts";
import { parsedObject } from "#wire/json/parse.ts";
import type { BodyWithAttachments } from "../attachments/request-attachments.ts";
import { hashedAtOnceBytes } from "../bounds.ts";

export interface SignedRequest {
  method: "GET" | "POST" | "DELETE";
  url: URL;
  headers: Record<string, string>;
  body: Buffer | BodyWithAttachments;
}

/**
 * The headers to add to a request, by the name of a credential. A promise where a token is
 * requested or a signature computed; rejects when that fails.
 */
export type Authorize = (
  upstream: CatalogueUpstream,
  credential: string | undefined,
  request: SignedRequest,
) => Record<string, string> | Promise<Record<string, string>>;

/**
 * The signer uses the hash in this header:
 * https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
 */
const contentHashHeader = "x-amz-content-sha256";

const serviceAccountTokenUrl = "https://oauth2.googleapis.com/token";
const googleScope = "https://www.googleapis.com/auth/cloud-platform";

/**
 * Reads a credential anew for each request. Caches tokens and signers by its name. Loads a vendor's
 * library when the first upstream needs it.
 */
export function createAuthorization(environment: Environment): Authorize {
  const googles = new Map<string, Promise<GoogleAuth>>();
  /** The values that the entries of `googles` were made of. */
  const googleCredentials = new Map<string, string>();
  const signers = new Map<string, Promise<SignatureV4>>();

  return (upstream, name, request) => {
    const credential = secretOf(name, environment);
    switch (upstream.authentication) {
      case "bearer":
        return credential === undefined ? {} : { authorization: `Bearer ${credential}` };
      case "x-api-key":
      case "api-key":
      case "x-goog-api-key":
        return credential === undefined ? {} : { [upstream.authentication]: credential };
      case "google":
        return googleHeadersOf(name ?? "", credential ?? "");
      case "aws":
        return awsHeadersOf(upstream, request);
      default:
        return upstream.authentication satisfies never;
    }
  };

  /**
   * The credential is the content or the path of a service account's key file. Without one,
   * Google's library searches the environment.
   */
  async function googleHeadersOf(name: string, credential: string): Promise<Record<string, string>> {
    if (googleCredentials.get(name) !== credential) googles.delete(name);
    googleCredentials.set(name, credential);
    const google = await kept(googles, name, () => googleOf(name, credential));
    return { authorization: `Bearer ${await google.getAccessToken()}` };
  }

  async function googleOf(name: string, credential: string): Promise<GoogleAuth> {
    if (isStoredReference(name) && !isServiceAccount(credential))
      throw new Error("A stored credential of Google must be the key file's content of a service account.");
    const { GoogleAuth } = await import("google-auth-library");
    const source = credential.startsWith("{")
      ? { credentials: JSON.parse(credential) as object }
      : credential === ""
        ? {}
        : { keyFilename: credential };
    return new GoogleAuth({ scopes: googleScope, ...source });
  }

  /** https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html */
  async function awsHeadersOf(
    { region, service }: CatalogueUpstream,
    { method, url, headers, body }: SignedRequest,
  ): Promise<Record<string, string>> {
    const awsRegion = region ?? environment.AWS_REGION ?? "us-east-1";
    const signer = await kept(signers, `${awsRegion} ${service}`, () => signerOf(awsRegion, service));
    const contentHash = { [contentHashHeader]: await sha256Of(body) };
    const signed = await signer.sign({
      method,
      protocol: url.protocol,
      hostname: url.hostname,
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      headers: { ...headers, ...contentHash, host: url.host },
    });
    const { host: _, ...added } = signed.headers;
    return Object.fromEntries(Object.entries(added).filter(([header]) => headers[header] === undefined));
  }

  async function signerOf(region: string, service: string): Promise<SignatureV4> {
    const [{ SignatureV4 }, { defaultProvider }, { Sha256 }] = await Promise.all([
      import("@smithy/signature-v4"),
      import("@aws-sdk/credential-provider-node"),
      import("@aws-crypto/sha256-js"),
    ]);
    return new SignatureV4({ credentials: defaultProvider(), region, service, sha256: Sha256 });
  }
}

/**
 * Other kinds of key files make Google's library read files and addresses of their choice, which an
 * operator of the API may not. The library's own errors could contain parts of the text.
 */
function isServiceAccount(text: string): boolean {
  const { type, token_uri = serviceAccountTokenUrl } = parsedObject(Buffer.from(text)) ?? {};
  return type === "service_account" && token_uri === serviceAccountTokenUrl;
}

/**
 * Computed natively because the signer's own hash takes seconds for a large body. A body in chunks
 * is hashed over several turns of the event loop.
 */
async function sha256Of(body: Buffer | BodyWithAttachments): Promise<string> {
  const hash = createHash("sha256");
  if (Buffer.isBuffer(body)) return hash.update(body).digest("hex");
  let hashed = 0;
  for (const chunk of body.chunks()) {
    hash.update(chunk);
    hashed += chunk.length;
    if (hashed < hashedAtOnceBytes) continue;
    hashed = 0;
    await setImmediate();
  }
  return hash.digest("hex");
}

/** The cached value, or a new one. A value that could not be made is made again the next time. */
function kept<Made>(all: Map<string, Promise<Made>>, name: string, make: () => Promise<Made>): Promise<Made> {
  const credential = all.get(name);
  if (credential !== undefined) return credential;
  const made = make();
  all.set(name, made);
  made.catch(() => all.get(name) === made && all.delete(name));
  return made;
}
