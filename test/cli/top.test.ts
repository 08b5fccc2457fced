import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { after, test } from "node:test";
import { stripVTControlCharacters } from "node:util";
import { type Terminal, topCommand } from "../../apps/cli/top.ts";
import { frameOf, type LiveState } from "../../apps/cli/top-frame.ts";
import { until } from "../support/time.ts";
import { jsonAnswer, startScriptedUpstream } from "../support/upstream.ts";

const state: LiveState = {
  at: "2027-01-31T18:00:00.000Z",
  rates: { requests: 12.34, failed: 0, refused: 1, chunks: 900 },
  queues: [
    {
      name: "audio",
      queued: 0,
      waiting: 0,
      running: 0,
      capacity: 0,
      workers: 0,
      oldestWaitMs: 0,
      groups: [],
      otherGroups: 0,
      control: {
        state: "paused",
        reason: "the vendor is down",
        by: "ann",
        at: "2027-01-31T17:00:00.000Z",
        until: null,
      },
    },
    {
      name: "chat",
      queued: 2,
      waiting: 1,
      running: 4,
      capacity: 4,
      workers: 1,
      oldestWaitMs: 1_500,
      groups: [{ group: "default", waiting: 2 }],
      otherGroups: 0,
      control: null,
    },
  ],
  processes: [
    {
      id: "worker-1",
      role: "worker",
      version: "0.2.0",
      host: "gw-1",
      pid: 7,
      startedAt: "2027-01-31T17:00:00.000Z",
      reportedAt: "2027-01-31T18:00:00.000Z",
      isLate: false,
      notReady: null,
      memoryBytes: 3 << 20,
      cores: 0.25,
      eventLoopDelayMs: 2,
      generations: 4,
      catalogue: "c1",
    },
  ],
  targets: [
    {
      target: "vendor/fine",
      state: "closed",
      calls: 9,
      failed: 0,
      running: 0,
      oldestMs: 0,
      firstTokenMs: 250,
      cooling: 0,
      vendorLimit: null,
      control: null,
    },
    {
      target: "vendor/broken",
      state: "open",
      calls: 3,
      failed: 3,
      running: 0,
      oldestMs: 0,
      firstTokenMs: null,
      cooling: 1,
      vendorLimit: null,
      control: null,
    },
  ],
  conditions: [{ kind: "noWorker", subject: "audio", value: null, share: null }],
  redis: { version: "Valkey 8.1.3", memoryBytes: 1 << 20, memoryMaxBytes: 2 ** 31, clients: 9, commandsPerSecond: 120 },
  ledger: { lagSeconds: 0.4, records: 12, invalid: 0, budgetDifferences: 0 },
  database: "postgres",
};

/** Stands for control: test/control/operations.test.ts has the real one. */
let answer = jsonAnswer(state);
const control = await startScriptedUpstream((response, { headers, path }) => {
  const isAllowed = headers.authorization === "Bearer a token" && path === "/api/v1/operations";
  (isAllowed ? answer : jsonAnswer({ detail: "The token is unknown." }, 401))(response);
});
after(() => control[Symbol.asyncDispose]());
const environment = { SLUICE_CONTROL_URL: control.origin, OPERATOR_TOKEN: "a token" };

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
  const terminal: Terminal = { input, output, errors };
  const frames = () => written.text.split("\x1b[H").slice(1);
  return { terminal, input, output, written, frames };
}

test("--once prints the state, without control characters where the output is no terminal", async () => {
  const { terminal, written } = terminalOf(false);
  assert.equal(await topCommand(["--once"], environment, terminal), 0);
  assert.equal(written.errors, "");
  assert.equal(
    written.text,
    `sluice  2027-01-31T18:00:00.000Z
requests 12.3/s  failed 0.0/s  refused 1.0/s  chunks 900.0/s
ingress 0  worker 1  control 0  Valkey 8.1.3 1.0 MiB of 2.0 GiB, 120 commands/s  ledger 0.4 s behind (postgres)
! no worker for the queue audio

QUEUE  WAITING  JOBS  OLDEST  RUNNING  SLOTS   USED  WORKERS
chat         2     1   1.5 s        4      4  100 %        1
audio        0     0                0      0               0  paused: the vendor is down

TARGET         CIRCUIT  CALLS/MIN  FAILED   FIRST  COOLING
vendor/broken  open             3       3                1
vendor/fine    closed           9       0  250 ms        0

PROCESS   STATE  CORES   MEMORY  DELAY  RUNNING  VERSION
worker-1  ready   0.25  3.0 MiB   2 ms        4  0.2.0 at gw-1
`,
  );
  const piped = terminalOf(false);
  assert.equal(await topCommand([], environment, piped.terminal), 0, "so it does without --once");
  assert.equal(piped.written.text, written.text);
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
  const ended = topCommand([], { ...environment, NO_COLOR: "1" }, terminal);
  await until("it draws", () => frames().length >= 1);
  const before = answer;
  answer = jsonAnswer({ detail: "Redis is away" }, 503);
  await until("it says so", () => frames().at(-1)?.includes("Redis is away; q ends it") === true);
  assert.match(frames().at(-1) as string, /chat/);
  assert.equal(
    stripVTControlCharacters(frames().join("")),
    frames().join("").replaceAll("\u001b[K", "").replaceAll("\u001b[J", ""),
  );
  input.write("\x03");
  assert.equal(await ended, 0);
  answer = before;
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
    [
      ["--once"],
      { SLUICE_CONTROL_URL: control.origin },
      1,
      /^sluice top: OPERATOR_TOKEN must be set to call control at .+\n$/,
    ],
  ];
  for (const [args, variables, code, error] of cases) {
    const { terminal, written } = terminalOf(false);
    assert.equal(await topCommand(args, variables, terminal), code);
    assert.match(written.errors, error);
    assert.equal(written.text, "");
  }
});

test("a frame fits any terminal, says how much it leaves out, and passes no control characters on", async () => {
  const [queue] = state.queues;
  const [target] = state.targets;
  assert.ok(queue && target);
  const large: LiveState = {
    ...state,
    conditions: Array.from({ length: 30 }, () => ({
      kind: "noWorker",
      subject: "ima\x1b[2Jge",
      value: null,
      share: null,
    })),
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
  assert.match(frame, /^! 24 more$/m);
});
