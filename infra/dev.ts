/**
 * `npm run dev`: the gateway of `npm start`, restarted when a source file changes, with its logs in
 * readable lines.
 */
import { spawn } from "node:child_process";
import { closeSync, openSync, readSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { setInterval } from "node:timers/promises";

const root = resolve(import.meta.dirname, "..");
const logs = join(root, ".sluice", "log");
const readEveryMs = 250;
const readBytesMax = 1 << 20;
const levels: Record<number, string> = { 10: "trace", 20: "debug", 30: "info", 40: "warn", 50: "error", 60: "fatal" };

/** One log line as text: time, role, level, message, then the other fields. */
function readable(role: string, line: string): string {
  try {
    const { level, time, msg, pid, hostname, role: _, ...fields } = JSON.parse(line) as Record<string, unknown>;
    const clock = String(time).slice(11, 23);
    const rest = Object.entries(fields).map(([name, value]) => ` ${name}=${JSON.stringify(value)}`);
    return `${clock} ${role.padEnd(9)} ${(levels[Number(level)] ?? "").padEnd(5)} ${msg}${rest.join("")}\n`;
  } catch {
    return `${role}: ${line}\n`;
  }
}

/**
 * Prints what a role appends to its log file. A new run replaces the file; reading then starts at
 * its beginning.
 */
async function follow(role: string): Promise<void> {
  const file = join(logs, `${role}.log`);
  const bytes = Buffer.alloc(readBytesMax);
  let inode = statSync(file, { throwIfNoEntry: false })?.ino;
  let offset = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  let rest = "";
  for await (const _ of setInterval(readEveryMs)) {
    const now = statSync(file, { throwIfNoEntry: false });
    if (now === undefined) continue;
    if (now.ino !== inode || now.size < offset) [inode, offset, rest] = [now.ino, 0, ""];
    if (now.size === offset) continue;
    const descriptor = openSync(file, "r");
    const count = readSync(descriptor, bytes, 0, readBytesMax, offset);
    closeSync(descriptor);
    offset += count;
    const lines = (rest + bytes.toString("utf8", 0, count)).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) process.stdout.write(readable(role, line));
  }
}

const watched = ["apps", "libs", "catalogue.yaml"].map((path) => `--watch-path=${path}`);
const gateway = spawn(process.execPath, [...watched, "--watch-preserve-output", "apps/cli/main.ts", "start"], {
  cwd: root,
  stdio: "inherit",
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => gateway.kill(signal));
gateway.on("exit", (code) => process.exit(code ?? 1));
for (const role of ["ingress", "worker", "simulator"]) void follow(role);
