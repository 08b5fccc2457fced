/**
 * The attacker's process: starts attacks on command, a second apart, and ends them at the next
 * command.
 */
import { setTimeout as delay } from "node:timers/promises";
import { bodyAnswer, startScriptedUpstream } from "../support/upstream.ts";
import { attacks } from "./attacks.ts";

const image = Buffer.alloc(19 << 20, Buffer.from("89504e470d0a1a0a", "hex"));
const server = await startScriptedUpstream(bodyAnswer(image, "image/png"));
process.send?.("ready");

let ending = new AbortController();
process.on("message", async ({ url, key, names }: { url: string; key: string; names: string[] }) => {
  ending.abort();
  ending = new AbortController();
  const target = { url, key, imageUrl: `${server.origin}/image.png` };
  const { signal } = ending;
  for (const name of names) {
    attacks[name]?.(target, signal).catch(() => undefined);
    await delay(1_000);
    if (signal.aborted) return;
  }
});
process.on("disconnect", () => process.exit());
// Nobody waits for requests that are aborted in the midst of an attack.
process.on("unhandledRejection", () => undefined);
