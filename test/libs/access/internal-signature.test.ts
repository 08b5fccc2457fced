/** Signatures between ingresses and control. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { internalSignatureMs } from "#access/bounds.ts";
import {
  type InternalRequest,
  InternalVerifier,
  internalSignatureHeader,
  signInternal,
} from "#access/internal-signature.ts";

const secret = "a secret between ingresses and control";
const now = 1_800_000_000_000;
const request: InternalRequest = { receiver: "control", method: "GET", url: "/openai/files?limit=2" };
const claims = { key: "key_1", account: "Äccount" };
const signature = () => signInternal(secret, request, claims, now);
const verified = (header: unknown, more: Partial<InternalRequest> = {}, at = now) =>
  new InternalVerifier(secret).verify(header, { ...request, ...more }, at);

test("the receiver gets the claims of the sender", () => {
  const { headers } = new Request("http://control", { headers: { [internalSignatureHeader]: signature() } });
  assert.deepEqual(verified(Object.fromEntries(headers)[internalSignatureHeader]), claims);
});

test("a signature is for one receiver, method and URL", () => {
  for (const more of [
    { receiver: "ingress" },
    { method: "DELETE" },
    { url: "/openai/files" },
    { url: "/openai/files?limit=20" },
  ] satisfies Partial<InternalRequest>[])
    assert.equal(verified(signature(), more), undefined);
});

test("a signature of another secret, a changed one, and any other text is refused", () => {
  assert.equal(verified(signInternal("another secret", request, claims, now)), undefined);
  const parts = signature().split(".");
  for (const [place, part] of parts.entries()) {
    const other = (part.startsWith("1") ? "2" : "1") + part.slice(1);
    assert.equal(verified(parts.with(place, other).join(".")), undefined);
    assert.equal(verified(parts.toSpliced(place, 1).join(".")), undefined);
  }
  for (const header of [undefined, "", "x", ["a", "b"], signature().repeat(2)])
    assert.equal(verified(header), undefined);
});

test("a signature is valid for a time, and is accepted once", () => {
  const verifier = new InternalVerifier(secret);
  const first = signature();
  assert.deepEqual(verifier.verify(first, request, now), claims);
  assert.equal(verifier.verify(first, request, now + 1), undefined);
  const second = signature();
  assert.equal(verifier.verify(second, request, now + internalSignatureMs), undefined);
  assert.equal(verifier.verify(second, request, now - internalSignatureMs - 1), undefined);
  assert.deepEqual(verifier.verify(second, request, now + internalSignatureMs - 1), claims);
  // The last character of a MAC has unused bits.
  const last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const spellings = [...last].map((letter) => first.slice(0, -1) + letter);
  assert.deepEqual(
    spellings.filter((each) => verifier.verify(each, request, now + 1) !== undefined),
    [],
  );
});

test("the number of remembered signatures is bounded", () => {
  const acceptedMax = 10;
  const verifier = new InternalVerifier(secret, acceptedMax);
  const first = signature();
  verifier.verify(first, request, now);
  for (let count = 1; count < acceptedMax; count++) verifier.verify(signature(), request, now);
  assert.equal(verifier.verify(first, request, now), undefined);
  verifier.verify(signature(), request, now);
  assert.deepEqual(verifier.verify(first, request, now), claims);
});
