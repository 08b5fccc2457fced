/**
 * An OpenID Connect provider: https://openid.net/specs/openid-connect-core-1_0.html. Whoever comes
 * is the person of the test's choice.
 */
import { createHash, createHmac, createSign, generateKeyPairSync, randomUUID } from "node:crypto";
import { jsonAnswer, startScriptedUpstream } from "../support/upstream.ts";

interface Person {
  sub: string;
  email?: string;
  name?: string;
  /** Other claims of the ID token. */
  [claim: string]: unknown;
}

export interface IdentityProvider extends AsyncDisposable {
  readonly issuer: string;
  person: Person;
  /** Signs with a key that is not published. */
  forges: boolean;
  /** The issuer that its document names. */
  named: string;
  /** The algorithm in the token's head; none: it has no signature. */
  algorithm: "RS256" | "none" | "HS256";
  /** The path whose answers have no end. */
  endless: string | undefined;
  /** Claims that replace the right ones of a token. */
  lies: Record<string, unknown>;
}

const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");

const newKeys = () => generateKeyPairSync("rsa", { modulusLength: 2048 });
/** Every provider's keys, and those that it forges tokens with. Making a pair takes long. */
const [own, foreign] = [newKeys(), newKeys()];

export async function startIdentityProvider(person: Person): Promise<IdentityProvider> {
  const codes = new Map<string, { nonce: string | null; challenge: string | null }>();
  const sign = (claims: object) => {
    const text = `${base64({ alg: provider.algorithm, kid: "one" })}.${base64(claims)}`;
    if (provider.algorithm === "none") return `${text}.`;
    // The public key is no secret, so nobody may take it for one.
    if (provider.algorithm === "HS256")
      return `${text}.${createHmac("sha256", own.publicKey.export({ type: "spki", format: "pem" }))
        .update(text)
        .digest("base64url")}`;
    const { privateKey } = provider.forges ? foreign : own;
    return `${text}.${createSign("sha256").update(text).sign(privateKey, "base64url")}`;
  };
  const server = await startScriptedUpstream((response, { path, body }) => {
    const url = new URL(path, provider.issuer);
    const send = (body: object, status = 200) => jsonAnswer(body, status)(response);
    if (url.pathname === provider.endless) {
      const part = Buffer.alloc(65_536, " ");
      const more = () => {
        while (!response.destroyed && response.write(part));
      };
      response.writeHead(200, { "content-type": "application/json" }).on("drain", more);
      return more();
    }
    switch (url.pathname) {
      case "/.well-known/openid-configuration":
        return send({
          issuer: provider.named,
          authorization_endpoint: `${provider.issuer}/authorize`,
          token_endpoint: `${provider.issuer}/token`,
          userinfo_endpoint: `${provider.issuer}/userinfo`,
          jwks_uri: `${provider.issuer}/keys`,
          id_token_signing_alg_values_supported: ["RS256"],
        });
      case "/keys":
        return send({ keys: [{ ...own.publicKey.export({ format: "jwk" }), kid: "one", alg: "RS256", use: "sig" }] });
      case "/authorize": {
        const code = randomUUID();
        codes.set(code, { nonce: url.searchParams.get("nonce"), challenge: url.searchParams.get("code_challenge") });
        const back = new URL(url.searchParams.get("redirect_uri") ?? "");
        back.searchParams.set("code", code);
        back.searchParams.set("state", url.searchParams.get("state") ?? "");
        return response.writeHead(302, { location: back.href }).end();
      }
      case "/token": {
        const form = new URLSearchParams(body.toString());
        const grant = codes.get(form.get("code") ?? "");
        const verifier = createHash("sha256")
          .update(form.get("code_verifier") ?? "")
          .digest("base64url");
        if (grant?.challenge !== verifier) return send({ error: "invalid_grant" }, 400);
        const now = Math.floor(Date.now() / 1_000);
        const claims = { iss: provider.named, aud: "sluice", iat: now, exp: now + 60, ...provider.person };
        return send({
          access_token: "access",
          token_type: "Bearer",
          id_token: sign({
            ...{ ...claims, email_verified: true, ...(grant.nonce !== null && { nonce: grant.nonce }) },
            ...provider.lies,
          }),
        });
      }
      default:
        return send({}, 404);
    }
  });
  const provider: IdentityProvider = {
    issuer: server.origin,
    person,
    forges: false,
    named: server.origin,
    algorithm: "RS256",
    lies: {},
    endless: undefined,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
  return provider;
}
