/**
 * A lock between processes: a file that names its holder. The lock ends with the process, even
 * after a crash.
 */
import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";

/** How long a new lock file may be empty before its holder has written it. */
const emptyMsMax = 2_000;

/**
 * Takes the lock, or returns its holder. Never waits. Throws other file system errors.
 * @param {string} file
 * @returns {{ kind: "taken", release: () => void } | { kind: "locked", pid: number }}
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
    const content = contentOf(file);
    if (content === undefined) continue;
    if (content === "") return { kind: "locked", pid: 0 };
    const pid = holderOf(content);
    if (pid !== undefined) return { kind: "locked", pid };
    removeIf(file, content);
  }
}

/**
 * The process that holds the lock; undefined when the lock is free.
 * @param {string} file
 * @returns {number | undefined}
 */
export function lockHolderOf(file) {
  const content = contentOf(file);
  return content === undefined ? undefined : holderOf(content);
}

/** @param {string} text */
function holderOf(text) {
  const [, pid, birth] = /^(\d+) (.*)\n$/.exec(text) ?? [];
  return pid !== undefined && isAlive(Number(pid)) && birthOf(Number(pid)) === birth ? Number(pid) : undefined;
}

/**
 * Undefined when there is no file; "" for a new file whose holder has not written it yet.
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
 * Removes a lock file if its content is still `text`. It renames the file first, so that only one
 * of two concurrent calls removes it.
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
 * The start time of a process, which distinguishes it from a later process with the same id. Empty
 * where the system does not report it (only Linux does).
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
