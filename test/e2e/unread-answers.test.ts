/**
 * Answers that nobody reads: an ingress keeps them within its bound, and breaks only connections of
 * the key above its share.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "../support/time.ts";
import { answersBytesMax, askAndNeverRead, isAllGivenBack, numbers, saying, servesOthers } from "./unread-support.ts";

test("one key whose callers read none of their streams loses connections, and another key's answers arrive", async () => {
  const sockets = Array.from({ length: 24 }, () => askAndNeverRead(saying("large", true)));
  const isCut = async () => {
    const { used, cut } = await numbers();
    assert.ok(used <= answersBytesMax, String(used));
    return cut > 0;
  };
  // Until then some 200 MB go through the gateway.
  await until("connections are broken", isCut, 60_000);
  await servesOthers();
  const { used, cut } = await numbers();
  assert.ok(used > answersBytesMax / 4 && cut < 24, `${used} bytes are held after ${cut} cuts`);
  for (const socket of sockets) socket.destroy();
  await isAllGivenBack();
});
