/** Makes sure that the locked dependencies are installed, Node 24 among them, and shows how far it is. */
import { spawn, spawnSync } from "node:child_process";
import { accessSync, closeSync, constants, existsSync, mkdirSync, openSync, readFileSync, writeSync } from "node:fs";
import { delimiter, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { lockHolderOf, takeLock } from "./lock.js";
import { startProgress } from "./progress.js";

const waitForOtherMsMax = 15 * 60_000;
const stopSignals = /** @type {NodeJS.Signals[]} */ (["SIGINT", "SIGTERM", "SIGHUP"]);

/** A fault of the surroundings that a person can mend; its message is one plain line. */
export class SetUpFault extends Error {}

/**
 * Installs what package-lock.json says unless that was done before. Two at once: the second waits for the first. Throws SetUpFault.
 * @param {string} root the checkout
 * @returns {Promise<{ runtime: string }>} the Node to run everything with
 */
export async function ensureInstalled(root) {
  if (!isInstalled(root)) {
    const lock = await waitForLock(join(root, ".sluice", "install.lock"));
    try {
      if (!isInstalled(root)) {
        const running = lockHolderOf(join(root, ".sluice", "start.lock"));
        if (running !== undefined)
          throw new SetUpFault(
            `the dependencies have changed, but the gateway runs in this checkout (process ${running}); stop it first`,
          );
        await install(root);
      }
    } finally {
      lock.release();
    }
  }
  const runtime = runtimeOf(root);
  if (runtime === undefined)
    throw new SetUpFault("Node 24 did not come with the dependencies; install Node 24 or newer and run this again");
  return { runtime };
}

/**
 * By what npm itself noted when it was done, so it doesn't matter who called it: every package that is not optional, in the locked version, none that
 * was made for another kind of machine, and a Node to run them.
 * @param {string} root
 */
function isInstalled(root) {
  const installed = packagesOf(join(root, "node_modules", ".package-lock.json"));
  const locked = packagesOf(join(root, "package-lock.json"));
  if (locked === undefined) throw new SetUpFault("package-lock.json is missing, or not what npm writes");
  if (installed === undefined || runtimeOf(root) === undefined) return false;
  return Object.entries(locked).every(([path, wanted]) => {
    const found = installed[path];
    if (found === undefined) return path === "" || wanted.optional === true;
    return (
      found.version === wanted.version &&
      found.integrity === wanted.integrity &&
      suits(wanted.os, process.platform) &&
      suits(wanted.cpu, process.arch)
    );
  });
}

/**
 * @typedef {{ version?: string, integrity?: string, optional?: boolean, os?: string[], cpu?: string[] }} Package
 * @param {string} file that npm writes
 * @returns {Record<string, Package> | undefined} by their directories, "" being the checkout
 */
function packagesOf(file) {
  try {
    const { packages } = JSON.parse(readFileSync(file, "utf8"));
    return typeof packages === "object" && packages !== null ? packages : undefined;
  } catch {
    return undefined;
  }
}

/**
 * @param {string[] | undefined} kinds all of which a package was made for, if not for any
 * @param {string} kind
 */
const suits = (kinds, kind) => kinds === undefined || kinds.includes(kind);

/**
 * The Node that the `node` package brought; else this one, if it is new enough (where that package has no build for the machine).
 * @param {string} root
 */
function runtimeOf(root) {
  const brought = join(root, "node_modules", "node", "bin", "node");
  if (existsSync(brought)) return brought;
  return Number(process.versions.node.split(".")[0]) >= 24 && !process.execPath.startsWith(join(root, "node_modules"))
    ? process.execPath
    : undefined;
}

/** @param {string} file */
async function waitForLock(file) {
  const deadline = Date.now() + waitForOtherMsMax;
  let told = false;
  for (;;) {
    const lock = takeLock(file);
    if (lock.kind === "taken") return lock;
    if (!told)
      process.stderr.write(
        `sluice: another set-up is at work in this checkout (process ${lock.pid}); waiting for it\n`,
      );
    told = true;
    if (Date.now() > deadline) throw new SetUpFault(`the other set-up (process ${lock.pid}) does not come to an end`);
    await delay(200);
  }
}

/** @param {string} root */
async function install(root) {
  const logFile = join(root, ".sluice", "log", "install.log");
  mkdirSync(join(root, "node_modules"), { recursive: true });
  try {
    accessSync(join(root, "node_modules"), constants.W_OK);
  } catch {
    throw new SetUpFault(`no permission to write ${join(root, "node_modules")}`);
  }
  const log = openSync(logFile, "w");
  const progress = startProgress("Installing the dependencies");
  let fetched = 0;
  const onLine = (/** @type {string} */ line) => {
    if (!/ http (fetch|cache) .*\.tgz/.test(line)) return;
    fetched++;
    progress.say(`${fetched} packages fetched`);
  };
  try {
    const outcome = await runLogged(
      "npm",
      ["ci", "--include=dev", "--engine-strict=false", "--loglevel=http", "--no-progress"],
      root,
      log,
      onLine,
    );
    if (outcome !== undefined)
      throw new SetUpFault(`the dependencies could not be installed: ${outcome} (all of it: ${logFile})`);
    if (!isRunnable(join(root, "node_modules", "node", "bin", "node"))) {
      progress.say("fetching Node 24");
      await runLogged(
        process.execPath,
        ["installArchSpecificPackage.js"],
        join(root, "node_modules", "node"),
        log,
        () => {},
      );
    }
    progress.end();
  } finally {
    progress.stop();
    closeSync(log);
  }
}

/** @param {string} file */
const isRunnable = (file) => spawnSync(file, ["--version"], { stdio: "ignore", timeout: 20_000 }).status === 0;

/**
 * Runs a command with its output in the log. Undefined when it succeeded, else why not, in one line.
 * @param {string} command
 * @param {string[]} args
 * @param {string} directory
 * @param {number} log
 * @param {(line: string) => void} onLine
 * @returns {Promise<string | undefined>}
 */
function runLogged(command, args, directory, log, onLine) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: directory,
      env: environmentOf(process.env),
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    /** @type {string[]} */
    const errors = [];
    let rest = "";
    const take = (/** @type {Buffer} */ chunk) => {
      writeSync(log, chunk);
      const lines = (rest + chunk.toString("utf8")).split("\n");
      rest = (lines.pop() ?? "").slice(-10_000);
      for (const line of lines) {
        const [, error] = /^npm (?:error|ERR!) (.+)$/.exec(line) ?? [];
        if (error !== undefined && errors.length < 50) errors.push(error.trim());
        onLine(line);
      }
    };
    child.stdout.on("data", take);
    child.stderr.on("data", take);
    /** @type {NodeJS.Signals | undefined} */
    let stoppedBy;
    const stop = (/** @type {NodeJS.Signals} */ signal) => {
      stoppedBy ??= signal;
      killGroup(child.pid);
    };
    for (const signal of stopSignals) process.on(signal, stop);
    const settle = (/** @type {string | undefined} */ outcome) => {
      for (const signal of stopSignals) process.off(signal, stop);
      resolve(stoppedBy === undefined ? outcome : `stopped by ${stoppedBy}`);
    };
    child.on("error", (error) =>
      settle(
        /** @type {NodeJS.ErrnoException} */ (error).code === "ENOENT"
          ? `there is no ${command} on PATH`
          : error.message,
      ),
    );
    child.on("close", (code) => settle(code === 0 ? undefined : reasonOf(errors, code)));
  });
}

/**
 * npm itself takes its time to end; what it leaves half-done is done anew the next time.
 * @param {number | undefined} pid of a process that leads a group
 */
function killGroup(pid) {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch {}
}

/**
 * The line of npm's errors that says most.
 * @param {string[]} errors
 * @param {number | null} code
 */
function reasonOf(errors, code) {
  const telling = errors.filter(
    (line) =>
      !/^(code|errno|syscall|A complete log|path|node:|\[|\{|\}|at )/.test(line) &&
      !/^network (This is|In most)/.test(line),
  );
  return telling[0] ?? errors[0] ?? `npm ended with ${code}`;
}

/**
 * Without the settings of an outer npm that an inner one would refuse, and without node_modules/.bin, whose Node is about to be replaced.
 * @param {NodeJS.ProcessEnv} environment
 */
function environmentOf(environment) {
  const { npm_config_allow_scripts: _, ...rest } = environment;
  const path = (rest.PATH ?? "")
    .split(delimiter)
    .filter((directory) => !directory.endsWith(join("node_modules", ".bin")));
  return { ...rest, PATH: path.join(delimiter) };
}
