import assert from "node:assert/strict";
import { test } from "node:test";
import { pino } from "pino";
import { createMail } from "../../apps/control/sign-in/mail.ts";
import { startTcpServer } from "../support/tcp.ts";
import { startMailServer } from "./mail-server.ts";

const settingsOf = (smtpUrl: string) => () => ({ name: "Acme", mailFrom: "sluice@example.com", smtpUrl });
const log = pino({ level: "silent" });

test("a mail server that is never silent and never done gets no more than the total time", async () => {
  const { promise: closed, resolve: close } = Promise.withResolvers<void>();
  await using server = await startTcpServer((socket) => {
    socket.resume().write("220 test\r\n");
    const timer = setInterval(() => socket.write("250-more\r\n"), 10);
    socket.on("close", () => {
      clearInterval(timer);
      close();
    });
  });
  const mail = createMail(settingsOf(`smtp://127.0.0.1:${server.port}`), log, 300);
  assert.equal(await mail.deliver("ada@example.com", "Link", "text"), "EABORT");
  await closed;
  mail.close();
});

test("a mail that its server takes in time is delivered", async () => {
  await using server = await startMailServer();
  const mail = createMail(settingsOf(server.url), log, 10_000);
  assert.equal(await mail.deliver("ada@example.com", "Link", "text"), undefined);
  assert.match(await server.next(), /^Subject: Link\r$/m);
  mail.close();
});
