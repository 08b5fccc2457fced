/** `sluice top`: the live state of the console's page Operations, in a terminal. */
import { parseArgs } from "node:util";
import type { ApiAddress } from "#api/client.ts";
import type { Environment } from "#catalogue/environment.ts";
import { failureOf } from "./command.ts";
import { callControl, controlOf } from "./control-address.ts";
import { frameOf, type LiveState } from "./top-frame.ts";

const usage = `Usage:
  sluice top           show queues, targets, processes and rates every second; q ends it
  sluice top --once    print them once; so it does where the output is no terminal

It calls the control of the gateway that runs in this directory, or the one at SLUICE_CONTROL_URL with OPERATOR_TOKEN. NO_COLOR turns colours off.
`;

const everyMs = 1_000;
/** q, and Ctrl-C, which a terminal in raw mode sends as a character. */
const endKeys = ["q", "Q", "\u0003"];
/** Control computes rates from two reports of a process, which come every second. */
const ratesAfterMs = 1_500;

const screen = {
  /** The terminal's second screen, without a cursor. */
  open: "\x1b[?1049h\x1b[?25l",
  close: "\x1b[?25h\x1b[?1049l",
  /** Draws over the frame before, without flicker. */
  frame: (lines: string[]) => `\x1b[H${lines.map((line) => `${line}\x1b[K`).join("\r\n")}\x1b[J`,
};

/** The parts of a terminal's streams that it uses. */
export interface Terminal {
  input: {
    on(event: "data", listener: (bytes: Buffer | string) => void): unknown;
    off(event: "data", listener: (bytes: Buffer | string) => void): unknown;
    resume(): unknown;
    pause(): unknown;
    setRawMode?(isRaw: boolean): unknown;
  };
  output: {
    write(text: string): unknown;
    on(event: "resize", listener: () => void): unknown;
    off(event: "resize", listener: () => void): unknown;
    isTTY?: boolean;
    columns?: number;
    rows?: number;
  };
  errors: { write(text: string): unknown };
}

/** Resolves to the exit code: 1 for a failed command, 2 for invalid arguments. Never rejects. */
export async function topCommand(
  args: string[],
  environment: Environment,
  terminal: Terminal = { input: process.stdin, output: process.stdout, errors: process.stderr },
): Promise<number> {
  const { errors, output } = terminal;
  const hasColors = output.isTTY === true && !environment.NO_COLOR;
  try {
    const { once } = parseArgs({ args, options: { once: { type: "boolean", default: false } } }).values;
    const control = controlOf(environment);
    const first = await readState(control);
    if (!once && output.isTTY) await show(control, first, terminal, hasColors);
    else {
      const bounds = { columns: output.columns ?? Number.POSITIVE_INFINITY, rows: Number.POSITIVE_INFINITY, hasColors };
      output.write(`${frameOf(await withRates(control, first), "", bounds).join("\n")}\n`);
    }
    return 0;
  } catch (error) {
    const failure = failureOf(error);
    if (failure === undefined) throw error;
    errors.write(failure.exitCode === 2 ? usage : `sluice top: ${failure.line}\n`);
    return failure.exitCode;
  }
}

const readState = (control: ApiAddress): Promise<LiveState> => callControl(control, "readOperations");

/** A first reading has no rates, unless somebody else reads them too. */
async function withRates(control: ApiAddress, state: LiveState): Promise<LiveState> {
  if (state.rates !== null) return state;
  await new Promise((resolve) => setTimeout(resolve, ratesAfterMs));
  return readState(control);
}

/**
 * Draws a frame every second, and at once when the terminal's size changes. Settles at `q`, Ctrl-C
 * or a signal.
 */
async function show(control: ApiAddress, first: LiveState, terminal: Terminal, hasColors: boolean): Promise<void> {
  const { input, output } = terminal;
  let state = first;
  let note = "";
  const draw = () => {
    const { columns = 80, rows = 24 } = output;
    output.write(screen.frame(frameOf(state, `${note}q ends it`, { columns, rows, hasColors })));
  };
  let isReading = false;
  let isOver = false;
  const read = async () => {
    if (isReading) return;
    isReading = true;
    try {
      state = await readState(control);
      note = "";
    } catch (error) {
      note = `${failureOf(error)?.line ?? error}; `;
    }
    isReading = false;
    if (!isOver) draw();
  };
  const ended = Promise.withResolvers<void>();
  const end = () => ended.resolve();
  const onKey = (bytes: Buffer | string) => {
    if (endKeys.some((key) => String(bytes).includes(key))) end();
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, end);
  input.setRawMode?.(true);
  input.on("data", onKey);
  input.resume();
  output.on("resize", draw);
  output.write(screen.open);
  draw();
  const timer = setInterval(() => void read(), everyMs);
  try {
    await ended.promise;
  } finally {
    isOver = true;
    clearInterval(timer);
    output.off("resize", draw);
    input.off("data", onKey);
    input.setRawMode?.(false);
    input.pause();
    for (const signal of signals) process.off(signal, end);
    output.write(screen.close);
  }
}
