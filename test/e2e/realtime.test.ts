import assert from "node:assert/strict";
import { once } from "node:events";
import { after, test } from "node:test";
import { startGateway } from "../support/gateway.ts";
import { openSession, officialSession, realtimeCatalogue } from "./realtime-support.ts";

const gateway = await startGateway({
  catalogue: realtimeCatalogue({ voice: "sim-realtime", live: "sim-live" }),
  workers: ["realtime=32"],
});
after(() => gateway[Symbol.asyncDispose]());

test("OpenAI's client holds a conversation, and sees the catalogue's name of the model", async () => {
  const session = officialSession(gateway, "voice");
  const created = await new Promise<{ session: { model?: string } }>((resolve) => session.once("session.created", resolve as never));
  assert.equal(created.session.model, "voice");
  session.close();
  await once(session.socket, "close");
});

test("bare", async () => {
  using session = await openSession(gateway, "voice");
  await session.until("session.created");
  const done = await session.say("Hello there");
  assert.equal(done.response.usage.output_tokens, 4);
});
