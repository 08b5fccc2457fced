/** The text of `sluice top`: the live state as lines that fit a terminal. */
import type { liveOperations } from "#api/live.ts";
import type { AnswerOf } from "#api/operation.ts";
import { alignedRows } from "./command.ts";

export type LiveState = AnswerOf<(typeof liveOperations)["readOperations"]>;

export interface FrameOptions {
  /** Characters of a line; Infinity for no bound, as are rows. */
  columns: number;
  rows: number;
  hasColors: boolean;
}

type Color = "bold" | "dim" | "red" | "yellow" | "green";
/** https://www.ecma-international.org/publications-and-standards/standards/ecma-48/, SGR. */
const codes: Record<Color, number> = { bold: 1, dim: 2, red: 31, yellow: 33, green: 32 };

interface Cell {
  text: string;
  /** False for the colour of the terminal. */
  color: Color | false;
}

type Line = Cell[];

interface Table {
  /**
   * The first columns are texts, those from `numbersFrom` on numbers; the last one is a text again.
   */
  heads: string[];
  numbersFrom: number;
  rows: Line[];
}

/** Names and reasons may have characters that control a terminal. */
const cell = (text: string | number, color: Cell["color"] = false): Cell => ({
  text: String(text).replaceAll(/\p{C}/gu, "?"),
  color,
});
const count = (value: number, color?: Cell["color"]) => cell(value.toLocaleString("en-US"), color);

const durationOf = (ms: number): string =>
  ms < 1_000 ? `${Math.round(ms)} ms` : ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.floor(ms / 60_000)} min`;

function bytesOf(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${power === 0 ? bytes : (bytes / 1_024 ** power).toFixed(1)} ${units[power]}`;
}

const conditionTexts: Record<LiveState["conditions"][number]["kind"], string> = {
  ledgerBehind: "the ledger is behind",
  invalidRecords: "the ledger put records aside",
  noWorker: "no worker for the queue",
  oldestWait: "requests wait too long on the queue",
  queueGrows: "more and more requests wait on the queue",
  queuePaused: "paused queue",
  queueDraining: "draining queue, which refuses requests",
  requestsFail: "requests fail",
  requestsRefused: "requests are refused",
  targetFails: "calls fail of",
  circuitBreakerOpen: "circuit breaker open",
  credentialCools: "a credential cools down of",
  processSilent: "silent process",
  processNotReady: "process not ready",
  redisMemory: "Redis' memory is nearly full",
  catalogueRefused: "a change of the catalogue is refused",
};

function headOf({ rates, redis, ledger, processes, database }: LiveState): Line[] {
  const rate = (value: number | undefined) => (value === undefined ? "–" : value.toFixed(1));
  const memory = redis.memoryMaxBytes === 0 ? "" : ` of ${bytesOf(redis.memoryMaxBytes)}`;
  const roles = (["ingress", "worker", "control"] as const)
    .map((role) => `${role} ${processes.filter((each) => each.role === role && !each.isLate).length}`)
    .join("  ");
  return [
    [
      cell(`requests ${rate(rates?.requests)}/s`, "bold"),
      cell(`failed ${rate(rates?.failed)}/s`, (rates?.failed ?? 0) > 0 && "red"),
      cell(`refused ${rate(rates?.refused)}/s`, (rates?.refused ?? 0) > 0 && "yellow"),
      cell(`chunks ${rate(rates?.chunks)}/s`),
    ],
    [
      cell(roles),
      cell(
        `${redis.version} ${bytesOf(redis.memoryBytes)}${memory}, ${Math.round(redis.commandsPerSecond)} commands/s`,
      ),
      cell(`ledger ${ledger.lagSeconds.toFixed(1)} s behind (${database})`),
    ],
  ];
}

function queuesOf({ queues }: LiveState): Table {
  const byLoad = queues.toSorted((a, b) => b.queued + b.running - a.queued - a.running || a.name.localeCompare(b.name));
  return {
    heads: ["QUEUE", "WAITING", "JOBS", "OLDEST", "RUNNING", "SLOTS", "USED", "WORKERS", ""],
    numbersFrom: 1,
    rows: byLoad.map(({ name, queued, waiting, oldestWaitMs, running, capacity, workers, control }) => [
      cell(name),
      count(queued, queued > 0 && "yellow"),
      count(waiting),
      cell(queued === 0 ? "" : durationOf(oldestWaitMs)),
      count(running),
      count(capacity),
      cell(capacity === 0 ? "" : `${Math.round((100 * running) / capacity)} %`, running >= capacity && "yellow"),
      count(workers, workers === 0 && "red"),
      control === null ? cell("") : cell(`${control.state}: ${control.reason}`, "yellow"),
    ]),
  };
}

function targetsOf({ targets }: LiveState): Table {
  const isBlocked = ({ state }: LiveState["targets"][number]) => Number(state !== "closed");
  const byLoad = targets.toSorted(
    (a, b) => isBlocked(b) - isBlocked(a) || b.calls - a.calls || a.target.localeCompare(b.target),
  );
  return {
    heads: ["TARGET", "CIRCUIT", "CALLS/MIN", "FAILED", "FIRST", "COOLING", ""],
    numbersFrom: 2,
    rows: byLoad.map(({ target, state, calls, failed, firstTokenMs, cooling, control }) => [
      cell(target),
      cell(state, state === "closed" ? "green" : "red"),
      count(calls),
      count(failed, failed > 0 && "red"),
      cell(firstTokenMs === null ? "" : durationOf(firstTokenMs)),
      count(cooling, cooling > 0 && "yellow"),
      control === null ? cell("") : cell(control.reason, "yellow"),
    ]),
  };
}

function processesOf({ processes }: LiveState): Table {
  const stateOf = ({ isLate, notReady }: LiveState["processes"][number]): Cell =>
    isLate ? cell("silent", "red") : notReady === null ? cell("ready", "green") : cell(notReady, "yellow");
  return {
    heads: ["PROCESS", "STATE", "CORES", "MEMORY", "DELAY", "RUNNING", "VERSION"],
    numbersFrom: 2,
    rows: processes.map((process) => [
      cell(process.id),
      stateOf(process),
      cell(process.cores.toFixed(2), process.cores > 0.9 && "yellow"),
      cell(bytesOf(process.memoryBytes)),
      cell(durationOf(process.eventLoopDelayMs), process.eventLoopDelayMs > 250 && "red"),
      count(process.generations),
      cell(`${process.version} at ${process.host}`),
    ]),
  };
}

/**
 * Columns as wide as their widest cell; at most `rowsMax` rows, and a line that says how many more
 * there are.
 */
function linesOf({ heads, numbersFrom, rows }: Table, rowsMax: number): Line[] {
  const hasMore = rows.length > rowsMax && rowsMax !== 1;
  const visible = rows.slice(0, hasMore ? Math.max(0, rowsMax - 1) : rowsMax);
  const lines = [heads.map((head) => cell(head, "dim")), ...visible];
  const texts = alignedRows(
    lines.map((line) => line.map(({ text }) => text)),
    (column) => column >= numbersFrom && column < heads.length - 1,
  );
  const aligned = lines.map((line, row) => line.map(({ color }, column) => cell(texts[row]?.[column] ?? "", color)));
  return hasMore ? [...aligned, [cell(`… ${rows.length - visible.length} more`, "dim")]] : aligned;
}

/** The rows of each table: its need, and where that is too much, the longest ones get less. */
function shared(needs: readonly number[], rowsMax: number): number[] {
  const shares = needs.map(() => 0);
  for (let left = rowsMax; left > 0; ) {
    const hungry = shares.flatMap((share, index) => (share < (needs[index] ?? 0) ? [index] : [])).slice(0, left);
    if (hungry.length === 0) break;
    for (const index of hungry) shares[index] = (shares[index] ?? 0) + 1;
    left -= hungry.length;
  }
  return shares;
}

/** The text of a line, cut at `columns`. */
function textOf(line: Line, { columns, hasColors }: FrameOptions): string {
  let left = columns;
  const texts = line.map(({ text, color }, index) => {
    const characters = [...(index > 0 ? `  ${text}` : text)].slice(0, Math.max(0, left));
    left -= characters.length;
    const cut = characters.join("");
    return hasColors && color && cut.trim() !== "" ? `\x1b[${codes[color]}m${cut}\x1b[0m` : cut;
  });
  return texts.join("").trimEnd();
}

/**
 * The frame's lines: at most `rows` of at most `columns` characters. `note` is shown at the end of
 * the first line.
 */
export function frameOf(state: LiveState, note: string, options: FrameOptions): string[] {
  const conditionsMax = Math.max(1, Math.floor(options.rows / 4));
  const conditions = state.conditions
    .slice(0, conditionsMax)
    .map(({ kind, subject }) => [cell(`! ${conditionTexts[kind]}${subject === null ? "" : ` ${subject}`}`, "red")]);
  const hidden = state.conditions.length - conditions.length;
  if (hidden > 0) conditions.push([cell(`! ${hidden} more`, "red")]);
  const top: Line[] = [[cell("sluice", "bold"), cell(state.at), cell(note, "dim")], ...headOf(state), ...conditions];
  const tables = [queuesOf(state), targetsOf(state), processesOf(state)];
  const overhead = 2 * tables.length;
  const shares = shared(
    tables.map(({ rows }) => rows.length),
    options.rows - top.length - overhead,
  );
  const lines = [...top, ...tables.flatMap((table, index) => [[], ...linesOf(table, shares[index] as number)])];
  return lines.slice(0, options.rows).map((line) => textOf(line, options));
}
