/** The private keys of accounts, encrypted with the secret of control: a copy of the database without AUTH_SECRET opens nothing. */
import { createSecretKey, hkdfSync } from "node:crypto";
import type { KeyPair } from "#content/sealing.ts";
import { decrypt, encrypt } from "#service/cipher.ts";

export const encryptedKeyOf = (secret: string, account: string, { privateKey }: KeyPair): string =>
  encrypt(secretOf(secret, account), Buffer.from(privateKey)).toString("base64url");

/** Undefined if it was encrypted with another secret. */
export const privateKeyOf = (secret: string, account: string, encrypted: string): string | undefined =>
  decrypt(secretOf(secret, account), Buffer.from(encrypted, "base64url"))?.toString();

const secretOf = (secret: string, account: string) =>
  createSecretKey(Buffer.from(hkdfSync("sha256", secret, account, "sluice content of an account", 32)));
