import assert from "node:assert/strict";
import { createServer } from "node:http";
import { PassThrough } from "node:stream";
import { after, test } from "node:test";
import { stripVTControlCharacters } from "node:util";
import { type Terminal, topCommand } from "../../apps/cli/top.ts";
import { frameOf, type LiveState } from "../../apps/cli/top-frame.ts";
import { startControl } from "../support/control.ts";
import { catalogueOf, startGateway, until } from "../support/gateway.ts";

await using opened = new AsyncDisposableStack();
const gateway = opened.use(
  await startGateway({
    workers: ["chat=4"],
    catalogue: catalogueOf([{ id: "slow", model: "sim-text;rate=20;first=0;tokens=4000" }]),
  }),
);
const control = opened.use(
  await startControl({
    REDIS_URL: gateway.redis.url,
    SLUICE_CATALOGUE: gateway.catalogueFile,
    SIMULATOR_URL: gateway.simulatorUrl,
  }),
);
const resources = opened.move();
after(() => resources.disposeAsync());

const environment = { SLUICE_CONTROL_URL: control.url, OPERATOR_TOKEN: control.token };

/** A terminal of 100 by 30, unless it is none. */
function terminalOf(isTTY: boolean) {
  const written = { text: "", errors: "", isRaw: false };
  const input = Object.assign(new PassThrough(), {
    isTTY,
    setRawMode(isRaw: boolean) {
      written.isRaw = isRaw;
      return input;
    },
  });
  const output = Object.assign(new PassThrough(), isTTY ? { isTTY, columns: 100, rows: 30 } : {});
  output.on("data", (bytes: Buffer) => {
    written.text += bytes.toString();
  });
  const errors = {
    write: (text: string) => {
      written.errors += text;
    },
  };
  const terminal = { input, output, errors } as unknown as Terminal;
  const frames = () => written.text.split("\x1b[H").slice(1);
  return { terminal, input, output, written, frames };
}

const callers = new AbortController();
const body = { model: "slow", stream: true, messages: [{ role: "user", content: "Hello" }] };
const streams = Array.from({ length: 6 }, () => gateway.post(body, { signal: callers.signal }).catch(() => undefined));
after(() => {
  callers.abort();
  return Promise.all(streams);
});
const state = () => control.get<LiveState>("/operations");
await until("four requests run, and two wait", async () => {
  const chat = (await state()).queues.find(({ name }) => name === "chat");
  return chat?.running === 4 && chat.queued === 2;
});

test("--once prints what runs and waits, without control characters where the output is no terminal", async () => {
  const { terminal, written } = terminalOf(false);
  assert.equal(await topCommand(["--once"], environment, terminal), 0);
  assert.equal(written.errors, "");
  assert.doesNotMatch(written.text.replaceAll("\n", ""), /\p{C}/u);
  const line = written.text.split("\n").find((each) => each.startsWith("chat"));
  assert.match(line as string, /^chat +2 +\d+ +\d+(\.\d)? (ms|s|min) +4 +4 +100 % +1$/);
  assert.match(written.text, /^requests \d+\.\d\/s {2}failed 0\.0\/s/m);
  assert.match(written.text, /^simulator\/sim-text;rate=20;first=0;tokens=4000 +closed +\d+ +0/m);
  assert.match(written.text, /^worker-\S+ +ready|^[\w-]+ +ready/m);
  const piped = terminalOf(false);
  assert.equal(await topCommand([], environment, piped.terminal), 0, "so it does without --once");
  assert.match(piped.written.text, /^chat /m);
});

test("in a terminal it draws every second and after a change of size, and q restores the terminal", async () => {
  const { terminal, input, output, written, frames } = terminalOf(true);
  const listeners = process.listenerCount("SIGTERM");
  const ended = topCommand([], environment, terminal);
  await until("it draws again", () => frames().length >= 2);
  assert.ok(written.isRaw);
  assert.ok(written.text.includes("\u001b[32m"), "what is well is green");
  Object.assign(output, { columns: 40, rows: 8 });
  const before = frames().length;
  output.emit("resize");
  const resized = frames()[before] as string;
  const lines = stripVTControlCharacters(resized).split("\r\n");
  assert.ok(lines.length <= 8 && lines.every((line) => [...line].length <= 40), resized);
  input.write("x");
  input.write("q");
  assert.equal(await ended, 0);
  assert.ok(written.text.endsWith("\x1b[?25h\x1b[?1049l"));
  assert.equal(written.isRaw, false);
  assert.equal(process.listenerCount("SIGTERM"), listeners);
});

test("NO_COLOR turns colours off, Ctrl-C ends it, and an outage is shown above the last state", async () => {
  const { terminal, input, frames } = terminalOf(true);
  let refused = false;
  const proxy = createServer(async (_request, reply) => {
    if (refused) return reply.writeHead(503).end('{"detail":"Redis is away"}');
    const response = await control.call("GET", "/operations");
    reply.writeHead(response.status).end(await response.text());
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const { port } = proxy.address() as { port: number };
  const ended = topCommand(
    [],
    { ...environment, SLUICE_CONTROL_URL: `http://127.0.0.1:${port}`, NO_COLOR: "1" },
    terminal,
  );
  await until("it draws", () => frames().length >= 1);
  refused = true;
  await until("it says so", () => frames().at(-1)?.includes("Redis is away; q ends it") === true);
  assert.match(frames().at(-1) as string, /chat/);
  assert.equal(
    stripVTControlCharacters(frames().join("")),
    frames().join("").replaceAll("\u001b[K", "").replaceAll("\u001b[J", ""),
  );
  input.write("\x03");
  assert.equal(await ended, 0);
  proxy.close();
});

test("wrong arguments, a wrong token and an absent control are one line", async () => {
  const cases: [args: string[], environment: Record<string, string>, code: number, error: RegExp][] = [
    [["--twice"], environment, 2, /^Usage:/],
    [["--once"], { ...environment, OPERATOR_TOKEN: "wrong" }, 1, /^sluice top: .+\n$/],
    [
      ["--once"],
      { ...environment, SLUICE_CONTROL_URL: "http://127.0.0.1:1" },
      1,
      /^sluice top: control at .+ does not answer\n$/,
    ],
    [["--once"], { SLUICE_CONTROL_URL: control.url }, 1, /^sluice top: .+OPERATOR_TOKEN\n$/],
  ];
  for (const [args, given, code, error] of cases) {
    const { terminal, written } = terminalOf(false);
    assert.equal(await topCommand(args, given, terminal), code);
    assert.match(written.errors, error);
    assert.equal(written.text, "");
  }
});

test("a frame fits any terminal, says how much it leaves out, and passes no control characters on", async () => {
  const now = await state();
  const [queue] = now.queues;
  const [target] = now.targets;
  assert.ok(queue && target);
  const large: LiveState = {
    ...now,
    conditions: [{ kind: "noWorker", subject: "ima\x1b[2Jge", value: null }],
    queues: Array.from({ length: 50 }, (_, index) => ({
      ...queue,
      name: `queue-${index}\x1b]0;title\x07`,
      queued: index,
    })),
    targets: Array.from({ length: 60 }, (_, index) => ({ ...target, target: `vendor/${"模型".repeat(20)}-${index}` })),
  };
  for (const [columns, rows] of [
    [80, 24],
    [20, 3],
    [200, 60],
    [1, 1],
    [132, 12],
  ] as const) {
    const lines = frameOf(large, "", { columns, rows, hasColors: false });
    assert.ok(lines.length <= rows);
    assert.ok(lines.every((line) => [...line].length <= columns));
    assert.doesNotMatch(lines.join(""), /\p{C}/u);
  }
  const frame = frameOf(large, "", { columns: 80, rows: 24, hasColors: false }).join("\n");
  assert.match(frame, /^queue-49/m, "the busiest queue is first");
  assert.match(frame, /^… \d+ more$/m);
  assert.match(frame, /^! no worker for the queue ima\?\[2Jge$/m);
});
