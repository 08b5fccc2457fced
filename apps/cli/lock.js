/** A lock between processes: a file that names its holder. It ends with its holder, however that ends. */
import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";

/** How long a lock file may be empty: between its creation and its first word. */
const emptyMsMax = 2_000;

/**
 * Takes the lock, or says who has it. Never waits. Other errors of the file system are thrown.
 * @param {string} file
 * @returns {{ kind: "taken", release: () => void } | { kind: "held", pid: number }}
 */
export function takeLock(file) {
  const text = `${process.pid} ${birthOf(process.pid)}\n`;
  for (;;) {
    try {
      writeFileSync(file, text, { flag: "wx", mode: 0o600 });
      return { kind: "taken", release: () => removeIf(file, text) };
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== "EEXIST") throw error;
    }
    const held = contentOf(file);
    if (held === undefined) continue;
    if (held === "") return { kind: "held", pid: 0 };
    const pid = holderOf(held);
    if (pid !== undefined) return { kind: "held", pid };
    removeIf(file, held);
  }
}

/**
 * The process that holds the lock; undefined when nobody does.
 * @param {string} file
 * @returns {number | undefined}
 */
export function lockHolderOf(file) {
  const held = contentOf(file);
  return held === undefined ? undefined : holderOf(held);
}

/** @param {string} text */
function holderOf(text) {
  const [, pid, birth] = /^(\d+) (.*)\n$/.exec(text) ?? [];
  return pid !== undefined && isAlive(Number(pid)) && birthOf(Number(pid)) === birth ? Number(pid) : undefined;
}

/**
 * Undefined when there is no such file; "" when it is too young to say who made it.
 * @param {string} file
 */
function contentOf(file) {
  try {
    const text = readFileSync(file, "utf8");
    return text.endsWith("\n") || Date.now() - statSync(file).mtimeMs < emptyMsMax ? text : "nobody";
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "ENOENT") return undefined;
    throw error;
  }
}

/**
 * Removes a lock file that still says `text`: it is moved aside first, so that of two who do this only one removes it.
 * @param {string} file
 * @param {string} text
 */
function removeIf(file, text) {
  if (contentOf(file) !== text) return;
  const aside = `${file}.${process.pid}`;
  try {
    renameSync(file, aside);
    if (contentOf(aside) === text) rmSync(aside);
    else renameSync(aside, file);
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== "ENOENT") throw error;
  }
}

/** @param {number} pid */
export function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === "EPERM";
  }
}

/**
 * Tells a process from a later one with the same number: when it began, where the system says so (Linux).
 * @param {number} pid
 */
function birthOf(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ");
    return `${readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()} ${fields[19]}`;
  } catch {
    return "";
  }
}
