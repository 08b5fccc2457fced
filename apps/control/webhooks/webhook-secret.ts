/** The secrets of webhooks, sealed for the database. */
import { seal, unseal } from "#service/sealing.ts";

const keyOf = (secret: string, webhook: string) => ({ secret, salt: webhook, purpose: "webhook" });

export const sealSecret = (secret: string, webhook: string, text: string): string => seal(keyOf(secret, webhook), text);

/** Undefined for one that was sealed with another AUTH_SECRET. */
export const unsealSecret = (secret: string, webhook: string, sealed: string): string | undefined =>
  unseal(keyOf(secret, webhook), sealed);
