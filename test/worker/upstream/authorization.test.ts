import assert from "node:assert/strict";
import { createHash, createHmac, generateKeyPairSync } from "node:crypto";
import { test } from "node:test";
import type { CatalogueUpstream } from "#catalogue/catalogue.ts";
import { createAuthorization } from "../../../apps/worker/upstream/authorization.ts";

const upstreamWith = (settings: Partial<CatalogueUpstream>) => settings as CatalogueUpstream;
const request = {
  method: "POST" as const,
  url: new URL("https://bedrock-runtime.eu-central-1.amazonaws.com/openai/v1/chat/completions"),
  headers: { "content-type": "application/json" },
  body: Buffer.from('{"model":"a"}'),
};

test("each kind of authentication sends its own header, and none without a credential", async () => {
  const authorize = createAuthorization({ KEY: "secret" });
  assert.deepEqual(await authorize(upstreamWith({ authentication: "bearer" }), "KEY", request), {
    authorization: "Bearer secret",
  });
  assert.deepEqual(await authorize(upstreamWith({ authentication: "x-api-key" }), "KEY", request), {
    "x-api-key": "secret",
  });
  assert.deepEqual(await authorize(upstreamWith({ authentication: "bearer" }), "OTHER", request), {});
});

/** https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html */
function signatureOf(headers: Record<string, string>, names: string[], scope: string[], secret: string): string {
  const sha = (text: string | Buffer) => createHash("sha256").update(text).digest("hex");
  const canonical = [
    "POST",
    request.url.pathname,
    "",
    ...names.map((name) => `${name}:${headers[name]}`),
    "",
    names.join(";"),
    sha(request.body),
  ].join("\n");
  const text = ["AWS4-HMAC-SHA256", headers["x-amz-date"], scope.join("/"), sha(canonical)].join("\n");
  const key = scope.reduce<string | Buffer>(
    (key, part) => createHmac("sha256", key).update(part).digest(),
    `AWS4${secret}`,
  );
  return createHmac("sha256", key).update(text).digest("hex");
}

test("a request to Bedrock is signed for its region and service, with its own time and body", async (context) => {
  const names = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"] as const;
  const before = names.map((name) => process.env[name]);
  Object.assign(process.env, { AWS_ACCESS_KEY_ID: "AKIDTEST", AWS_SECRET_ACCESS_KEY: "secret" });
  delete process.env.AWS_SESSION_TOKEN;
  context.after(() => {
    for (const [place, name] of names.entries())
      if (before[place] === undefined) delete process.env[name];
      else process.env[name] = before[place];
  });
  const authorize = createAuthorization({});
  const upstream = upstreamWith({ authentication: "aws", region: "eu-central-1", service: "bedrock" });
  const answers = await Promise.all([authorize(upstream, undefined, request), authorize(upstream, undefined, request)]);
  for (const added of answers) {
    const [, day, signed = "", signature] =
      /^AWS4-HMAC-SHA256 Credential=AKIDTEST\/(\d{8})\/eu-central-1\/bedrock\/aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/.exec(
        added.authorization ?? "",
      ) ?? [];
    const headers = { ...request.headers, host: request.url.host, ...added };
    const expected = signatureOf(
      headers,
      signed.split(";"),
      [day ?? "", "eu-central-1", "bedrock", "aws4_request"],
      "secret",
    );
    assert.equal(signature, expected);
  }
});

test("an unusable Google key file is a rejection each time, never an unhandled one", async () => {
  const { privateKey } = generateKeyPairSync("rsa", {
    modulusLength: 2_048,
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
    publicKeyEncoding: { type: "spki", format: "pem" },
  });
  const authorize = createAuthorization({
    WHOLE: JSON.stringify({ type: "unknown", private_key: privateKey }),
    BROKEN: "{",
    AWAY: "/nowhere/key.json",
  });
  for (const name of ["WHOLE", "BROKEN", "AWAY", "BROKEN"])
    await assert.rejects(async () => authorize(upstreamWith({ authentication: "google" }), name, request), name);
});
