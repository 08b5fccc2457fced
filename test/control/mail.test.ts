import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { test } from "node:test";
import { pino } from "pino";
import { createMail } from "../../apps/control/sign-in/mail.ts";
import { startMailServer } from "./mail-server.ts";

const settingsOf = (smtpUrl: string) => () => ({ name: "Acme", mailFrom: "sluice@example.com", smtpUrl });
const log = pino({ level: "silent" });

test("a mail server that is never silent and never done gets no more than the total time", async () => {
  const { promise: closed, resolve: close } = Promise.withResolvers<void>();
  const server = createServer((socket) => {
    socket
      .on("error", () => undefined)
      .resume()
      .write("220 test\r\n");
    const timer = setInterval(() => socket.write("250-more\r\n"), 10);
    socket.on("close", () => {
      clearInterval(timer);
      close();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const mail = createMail(settingsOf(`smtp://127.0.0.1:${(server.address() as AddressInfo).port}`), log, 300);
  assert.equal(await mail.deliver("ada@example.com", "Link", "text"), "EABORT");
  await closed;
  mail.close();
  server.close();
});

test("a mail that its server takes in time is delivered", async () => {
  await using server = await startMailServer();
  const mail = createMail(settingsOf(server.url), log, 10_000);
  assert.equal(await mail.deliver("ada@example.com", "Link", "text"), undefined);
  assert.match(await server.next(), /^Subject: Link\r$/m);
  mail.close();
});
