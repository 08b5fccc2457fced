/**
 * infra/nginx/nginx.conf in a real nginx, in front of two servers that stand for ingresses. Needs
 * nginx 1.22 or newer: `apt-get install nginx`.
 */
import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { chmodSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Agent, createServer, request, type Server, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { freePort } from "../support/tcp.ts";
import { until } from "../support/time.ts";
import { root, textOf } from "./compose.ts";

const file = `${root}infra/nginx/nginx.conf`;
assert.equal(spawnSync("nginx", ["-v"]).status, 0, "nginx is missing: apt-get install nginx");

const directory = mkdtempSync(join(tmpdir(), "nginx-"));
chmodSync(directory, 0o755);
const addresses = ["127.0.0.2", "127.0.0.3"];
const [port, ingressPort] = [await freePort(), await freePort()];

/** Docker's name server: `ingress` has these addresses. */
const names = createSocket("udp4", (query, { port: from, address }) => {
  const head = Buffer.from([query[0]!, query[1]!, 0x81, 0x80, 0, 1, 0, addresses.length, 0, 0, 0, 0]);
  const answers = addresses.map((one) =>
    Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, ...one.split(".").map(Number)]),
  );
  names.send(Buffer.concat([head, query.subarray(12, query.indexOf(0, 12) + 5), ...answers]), from, address);
});
names.bind(0, "127.0.0.1");
await once(names, "listening");

/** An answer has the own address; /stream sends one chunk, and the test the others. */
const streams = new Set<ServerResponse>();
async function startIngress(address: string): Promise<Server> {
  const server = createServer((message, response) => {
    if (message.url === "/stream") {
      streams.add(response);
      response.writeHead(200, { "content-type": "text/event-stream" }).write("data: 1\n\n");
    } else message.resume().once("end", () => response.end(address));
  });
  server.on("upgrade", (_message, socket) =>
    socket.end("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello"),
  );
  server.listen(ingressPort, address);
  await once(server, "listening");
  return server;
}
const ingresses = await Promise.all(addresses.map(startIngress));

const configuration = textOf("infra/nginx/nginx.conf")
  .replace("resolver 127.0.0.11", `resolver 127.0.0.1:${names.address().port}`)
  .replace("ingress:8080", `ingress:${ingressPort}`)
  .replace("listen 8080", `listen 127.0.0.1:${port}`)
  // A slow machine refills nothing meanwhile.
  .replace("rate=200r/s", "rate=1r/m")
  .replaceAll("/tmp/", `${directory}/`);
assert.ok(configuration.includes("rate=1r/m"));
writeFileSync(join(directory, "nginx.conf"), configuration);
const [output, errors] = ["output", "errors"].map((name) => openSync(join(directory, name), "w"));
const nginx: ChildProcess = spawn("nginx", ["-c", join(directory, "nginx.conf"), "-g", "daemon off;"], {
  stdio: ["ignore", output!, errors!],
});
const agent = new Agent({ keepAlive: true, maxSockets: 100 });
after(async () => {
  const ended = once(nginx, "exit");
  nginx.kill("SIGTERM");
  await ended;
  agent.destroy();
  names.close();
  for (const server of ingresses) server.close().closeAllConnections();
  rmSync(directory, { recursive: true });
});

interface Answer {
  status: number;
  headers: Record<string, unknown>;
  text: string;
}
const ask = (path: string, headers: Record<string, string> = {}, method = "GET"): Promise<Answer> =>
  new Promise((resolve, reject) => {
    request({ port, host: "127.0.0.1", path, method, headers, agent }, async (response) => {
      const text = Buffer.concat(await response.toArray()).toString();
      resolve({ status: response.statusCode!, headers: response.headers, text });
    })
      .on("error", reject)
      .end();
  });
await until("nginx to answer", () =>
  ask("/").then(
    () => true,
    () => false,
  ),
);

test("the file itself is valid, and lets a worker open both connections of each request", () => {
  execFileSync("nginx", ["-t", "-c", file], { stdio: ["ignore", output!, errors!] });
  const numberOf = (name: string) => Number(new RegExp(`^\\s*${name} (\\d+);`, "m").exec(configuration)?.[1]);
  assert.ok(numberOf("worker_rlimit_nofile") >= 2 * numberOf("worker_connections"));
  const workers = readFileSync(`/proc/${nginx.pid}/task/${nginx.pid}/children`, "utf8").trim().split(" ");
  assert.equal(workers.length, numberOf("worker_processes"));
  const limitsOf = (pid: string) =>
    /^Max open files +(\d+) +(\d+)/m
      .exec(readFileSync(`/proc/${pid}/limits`, "utf8"))!
      .slice(1)
      .map(Number);
  const [, limitMax] = limitsOf("self");
  for (const worker of workers)
    assert.equal(limitsOf(worker)[0], Math.min(numberOf("worker_rlimit_nofile"), limitMax!));
});

test("requests reach all ingresses, and only those that listen", async () => {
  const seen = async () =>
    new Set((await Promise.all(Array.from({ length: 50 }, () => ask("/")))).map(({ text }) => text));
  assert.deepEqual(await seen(), new Set(addresses));
  const [first] = ingresses.splice(0, 1);
  first!.close().closeAllConnections();
  await once(first!, "close");
  assert.deepEqual(await seen(), new Set(addresses.slice(1)), "its name server still names the other one");
  ingresses.push(await startIngress(addresses[0]!));
});

test("a chunk leaves as it comes, and an upgrade is passed on", async () => {
  const { body } = await fetch(`http://127.0.0.1:${port}/stream`);
  const reader = body!.getReader();
  const next = async () => Buffer.from((await reader.read()).value!).toString();
  assert.equal(await next(), "data: 1\n\n");
  for (const stream of streams) stream.write("data: 2\n\n");
  assert.equal(await next(), "data: 2\n\n");
  await reader.cancel();

  const headers = { connection: "Upgrade", upgrade: "websocket" };
  const socket = request({ port, host: "127.0.0.1", path: "/v1/realtime", headers }).end();
  const [response, stream] = (await once(socket, "upgrade")) as [{ statusCode: number }, NodeJS.ReadableStream];
  assert.equal(response.statusCode, 101);
  stream.resume();
});

test("each key has its limits, wherever a client puts it; requests without one share those of their address", async () => {
  const places: ((key: string) => [path: string, headers: Record<string, string>])[] = [
    (key) => ["/", { authorization: `Bearer ${key}` }],
    (key) => ["/", { authorization: `bearer  ${key}`, "x-api-key": "stale" }],
    (key) => ["/", { authorization: "Basic abc", "x-api-key": key }],
    (key) => ["/", { "x-goog-api-key": key }],
    (key) => ["/", { "api-key": key }],
    (key) => [`/v1beta/models?key=${key}`, {}],
    (key) => ["/", { "sec-websocket-protocol": `realtime, openai-insecure-api-key.${key}` }],
  ];
  const flood = async (path: string, headers: Record<string, string>) => {
    const answers = await Promise.all(Array.from({ length: 1_100 }, () => ask(path, headers)));
    const refused = answers.find(({ status }) => status === 429);
    assert.ok(refused !== undefined && answers.some(({ status }) => status === 200));
    return refused;
  };
  // Longer than what is compared, and different at its end only.
  const long = "k".repeat(300);
  const refused = await flood(...places[0]!(`${long}1`));
  assert.equal(refused.headers["retry-after"], "1");
  assert.equal((JSON.parse(refused.text) as { error: { code: string } }).error.code, "rate_limit_exceeded");
  for (const place of places) {
    assert.equal((await ask(...place(`${long}2`))).status, 200);
    assert.equal((await ask(...place(`${long}1`))).status, 429, JSON.stringify(place("key")));
  }
  assert.equal((await ask("/")).status, 200);
  await flood("/", {});
  assert.equal((await ask(...places[0]!("another"))).status, 200);
});

test("callers of a gateway that is away get an error that clients understand and repeat", async () => {
  for (const server of ingresses.splice(0)) {
    server.close().closeAllConnections();
    await once(server, "close");
  }
  const { status, headers, text } = await ask("/", { authorization: "Bearer last" }, "POST");
  assert.deepEqual([status, headers["retry-after"]], [503, "1"]);
  assert.equal((JSON.parse(text) as { error: { code: string } }).error.code, "unavailable");
  assert.doesNotMatch(readFileSync(join(directory, "output"), "utf8"), /key=/, "no key in the log");
});
