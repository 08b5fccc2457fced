/**
 * Seals content for an account with its public key; only the private key opens it. Each value has
 * its own key: X25519 (RFC 7748) with an ephemeral key pair, and HKDF (RFC 5869) over both public
 * keys and the value's name.
 */
import {
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
} from "node:crypto";
import { decrypt, encrypt } from "#service/cipher.ts";

const publicKeyBytes = 32;

/** Both are base64url. */
export interface KeyPair {
  readonly publicKey: string;
  readonly privateKey: string;
}

export function createKeyPair(): KeyPair {
  const { x = "", d = "" } = generateKeyPairSync("x25519").privateKey.export({ format: "jwk" });
  return { publicKey: x, privateKey: d };
}

/**
 * 60 bytes longer than the value, which `open` finds only under the same name. Throws for anything
 * but a public key.
 */
export function seal(publicKey: string, name: string, value: Buffer): Buffer {
  const receiver = createPublicKey({ key: { kty: "OKP", crv: "X25519", x: publicKey }, format: "jwk" });
  const sender = generateKeyPairSync("x25519");
  const shared = diffieHellman({ privateKey: sender.privateKey, publicKey: receiver });
  const senderKey = rawOf(sender.publicKey);
  return Buffer.concat([senderKey, encrypt(secretOf(shared, senderKey, publicKey, name), value)]);
}

/** Undefined for what was not sealed for this account under this name. */
export function open({ publicKey, privateKey }: KeyPair, name: string, sealed: Buffer): Buffer | undefined {
  const senderKey = sealed.subarray(0, publicKeyBytes);
  if (senderKey.length < publicKeyBytes) return undefined;
  const okp = { kty: "OKP", crv: "X25519" };
  try {
    const shared = diffieHellman({
      privateKey: createPrivateKey({ key: { ...okp, x: publicKey, d: privateKey }, format: "jwk" }),
      publicKey: createPublicKey({ key: { ...okp, x: senderKey.toString("base64url") }, format: "jwk" }),
    });
    return decrypt(secretOf(shared, senderKey, publicKey, name), sealed.subarray(publicKeyBytes));
  } catch {
    return undefined;
  }
}

const rawOf = (key: KeyObject): Buffer => Buffer.from(key.export({ format: "jwk" }).x ?? "", "base64url");

function secretOf(shared: Buffer, senderKey: Buffer, publicKey: string, name: string): KeyObject {
  const salt = Buffer.concat([senderKey, Buffer.from(publicKey, "base64url")]);
  return createSecretKey(Buffer.from(hkdfSync("sha256", shared, salt, `sluice content ${name}`, 32)));
}
