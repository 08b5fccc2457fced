/** Slow senders are disconnected long before the time limit of a request. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, test } from "node:test";
import { startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { until } from "../support/time.ts";
import { Bare, socketCatalogue } from "./socket-support.ts";

const gateway = await startGateway({
  catalogue: socketCatalogue({ sim: "sim-text;rate=0;first=0" }),
  environment: { UPLOAD_GRACE_MS: "1500", UPLOAD_BYTES_PER_SECOND_MIN: "1000", REQUEST_TIMEOUT_MS: "3600000" },
});
after(() => gateway[Symbol.asyncDispose]());
const metrics = () => metricsOf(gateway.ingresses[0]);

interface Upload {
  path?: string;
  lines: string[];
  /** The text that is sent at once. */
  begin: string;
  /** The text that is sent every 50 ms, `drips` times. */
  drip?: string;
  drips?: number;
}

/** Resolves with all that the sender was told, once its connection is closed. */
function told({ path = "/v1/chat/completions", lines, begin, drip = "", drips = 0 }: Upload): Promise<string> {
  const { hostname, port } = new URL(gateway.url);
  const head = [
    `POST ${path} HTTP/1.1`,
    "Host: x",
    `Authorization: Bearer ${gateway.key}`,
    "Content-Type: application/json",
    ...lines,
  ];
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname);
    let text = "";
    let sent = 0;
    const dripping = setInterval(() => sent++ < drips && socket.write(drip), 50);
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
    });
    socket.on("error", () => undefined);
    socket.on("close", () => {
      clearInterval(dripping);
      resolve(text);
    });
    socket.write(`${head.join("\r\n")}\r\n\r\n${begin}`);
  });
}

const uploads: Record<string, Upload> = {
  "a small body that stalls": { lines: ["Content-Length: 2000"], begin: "{".padEnd(1_000) },
  "a small body of which nothing comes": { lines: ["Content-Length: 2000"], begin: "" },
  "a large body that stalls": { lines: ["Content-Length: 1000000"], begin: "{".padEnd(500_000) },
  "a body of unknown length that stalls": {
    lines: ["Transfer-Encoding: chunked"],
    begin: `3e8\r\n${"{".padEnd(1_000)}\r\n`,
  },
  "a body that was asked for and does not come": { lines: ["Content-Length: 2000", "Expect: 100-continue"], begin: "" },
  "a body that drips": { lines: ["Content-Length: 2000"], begin: "", drip: " ", drips: 1_000 },
  "a large body that drips": { lines: ["Transfer-Encoding: chunked"], begin: "", drip: "1\r\n \r\n", drips: 1_000 },
};

test("a body that arrives too slowly gets a 408 in its dialect, and its connection is closed", async () => {
  const paths = {
    "/v1/chat/completions": '"code":"request_timeout"',
    "/v1/messages": '"type":"timeout_error"',
    "/v1beta/models/sim:generateContent": "DEADLINE_EXCEEDED",
  };
  await Promise.all(
    Object.entries(uploads).flatMap(([name, upload]) =>
      Object.entries(paths).map(async ([path, kind]) => {
        const text = (await told({ ...upload, path })).replace("HTTP/1.1 100 Continue\r\n\r\n", "");
        assert.match(text, /^HTTP\/1\.1 408 [\s\S]*\r\nconnection: close\r\n/i, `${name}: ${text}`);
        assert.equal(text.split("HTTP/1.1").length, 2, name);
        assert.ok(text.includes(kind), `${name}: ${text}`);
        assert.match(text, /1000 bytes per second/, name);
      }),
    ),
  );
  await until("nothing is held", async () => /sluice_bodies_bytes 0\n/.test(await metrics()));
  assert.match(await metrics(), /sluice_errors_total\{code="request_timeout"\} 21\n/);
});

test("a slow sender that keeps the minimum rate is answered", async () => {
  const body = JSON.stringify({ model: "sim", messages: [{ role: "user", content: "hello" }] });
  const drips = 40;
  const lines = [`Content-Length: ${body.length + drips * 100}`, "Connection: close"];
  assert.match(await told({ lines, begin: body, drip: " ".repeat(100), drips }), /^HTTP\/1\.1 200 /);
});

test("a WebSocket whose message stalls gets an error and is closed; one without a message stays", async () => {
  using quiet = await Bare.open(gateway.url, gateway.key);
  using slow = await Bare.open(gateway.url, gateway.key);
  slow.socket.send("x".repeat(1_000), { fin: false });
  const { status, error } = await slow.until("error");
  assert.deepEqual([status, error?.code], [408, "request_timeout"]);
  assert.equal((await slow.closed).code, 1008);
  assert.equal((await quiet.turn({ model: "sim", input: "x" })).type, "response.completed");
});
