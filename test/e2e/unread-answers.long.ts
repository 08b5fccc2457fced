/**
 * WebSockets' frames and stored answers that nobody reads: like streams (unread-answers.test.ts),
 * they cost their own key its connections.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "../support/time.ts";
import { Bare } from "./socket-support.ts";
import {
  answersBytesMax,
  askAndNeverRead,
  gateway,
  greedy,
  isAllGivenBack,
  numbers,
  saying,
  servesOthers,
} from "./unread-support.ts";

test("one key whose callers read none of their WebSockets' frames loses connections, and another key's answers arrive", async () => {
  const before = (await numbers()).cut;
  const sockets = await Promise.all(Array.from({ length: 24 }, () => Bare.open(gateway.url, greedy)));
  for (const { socket } of sockets) socket.pause();
  for (const socket of sockets) socket.create({ model: "large", input: "hello" });
  await until("connections are broken", async () => {
    const { used, cut } = await numbers();
    assert.ok(used <= answersBytesMax, String(used));
    return cut > before;
  });
  await servesOthers();
  for (const socket of sockets) socket[Symbol.dispose]();
  await isAllGivenBack();
});

test("one key whose callers request a stored answer repeatedly and do not read it loses connections, and another key's answers arrive", async () => {
  const before = (await numbers()).cut;
  const name = "idempotency-key";
  const stored = await gateway.post(saying("sim", false), { headers: { [name]: "one" } });
  assert.equal(stored.status, 200, await stored.text());
  const sockets = Array.from({ length: 2 }, () => askAndNeverRead(saying("sim", false), 60, [`${name}: one`]));
  await until("connections are broken", async () => {
    const { used, cut } = await numbers();
    assert.ok(used <= answersBytesMax, String(used));
    return cut > before;
  });
  await servesOthers();
  for (const socket of sockets) socket.destroy();
  await isAllGivenBack();
});
