/** Installs the locked dependencies, Node 24 included, and shows the progress. */
import { spawn, spawnSync } from "node:child_process";
import { accessSync, closeSync, constants, existsSync, mkdirSync, openSync, readFileSync, writeSync } from "node:fs";
import { delimiter, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { lockHolderOf, takeLock } from "#service/lock.js";
import { startProgress } from "./progress.js";

const waitForOtherMsMax = 15 * 60_000;
const stopSignals = /** @type {NodeJS.Signals[]} */ (["SIGINT", "SIGTERM", "SIGHUP"]);

/** A setup error that a person can fix. The message is one line. */
export class SetUpFault extends Error {}

/**
 * Installs the packages of package-lock.json unless they are already installed. A concurrent call
 * waits for the first. Throws SetUpFault.
 * @param {string} root the checkout
 * @returns {Promise<{ runtime: string }>} the Node executable of the gateway
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
    throw new SetUpFault(
      "the dependencies contain no Node 24 for this machine; install Node 24 or newer and run the command again",
    );
  return { runtime };
}

/**
 * Compares the lock with npm's own record of the installation, so a manual `npm ci` counts too.
 * Requires every package that is not optional, in the locked version, no package for another kind
 * of machine, and a Node to run them.
 * @param {string} root
 */
function isInstalled(root) {
  const installed = packagesOf(join(root, "node_modules", ".package-lock.json"));
  const locked = packagesOf(join(root, "package-lock.json"));
  if (locked === undefined) throw new SetUpFault("package-lock.json is missing or invalid");
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
 * @param {string} file written by npm
 * @returns {Record<string, Package> | undefined} by directory; "" is the checkout
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
 * @param {string[] | undefined} kinds of machine that a package supports; undefined for all
 * @param {string} kind
 */
const suits = (kinds, kind) => kinds === undefined || kinds.includes(kind);

/**
 * The Node of the `node` package; otherwise the current Node, if it is new enough, for machines
 * without a build of that package.
 * @param {string} root
 */
function runtimeOf(root) {
  const packaged = join(root, "node_modules", "node", "bin", "node");
  if (existsSync(packaged)) return packaged;
  return Number(process.versions.node.split(".")[0]) >= 24 && !process.execPath.startsWith(join(root, "node_modules"))
    ? process.execPath
    : undefined;
}

/** @param {string} file */
async function waitForLock(file) {
  const deadline = Date.now() + waitForOtherMsMax;
  let isReported = false;
  for (;;) {
    const lock = takeLock(file);
    if (lock.kind === "taken") return lock;
    if (!isReported)
      process.stderr.write(
        `sluice: process ${lock.pid} is installing the dependencies of this checkout; waiting for it\n`,
      );
    isReported = true;
    if (Date.now() > deadline)
      throw new SetUpFault(
        `process ${lock.pid} is still installing the dependencies after 15 minutes; stop it and try again`,
      );
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
  const progress = startProgress("Installing dependencies");
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
    if (outcome !== undefined) throw new SetUpFault(`installing the dependencies failed: ${outcome} (log: ${logFile})`);
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
 * Runs a command and writes its output to the log. Resolves to undefined on success, otherwise to
 * the reason in one line.
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
        /** @type {NodeJS.ErrnoException} */ (error).code === "ENOENT" ? `${command} is not on PATH` : error.message,
      ),
    );
    child.on("close", (code) => settle(code === 0 ? undefined : reasonOf(errors, code)));
  });
}

/**
 * Kills npm, which is slow to stop. The next installation replaces a partial one.
 * @param {number | undefined} pid of a process group leader
 */
function killGroup(pid) {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch {}
}

/**
 * The most informative line of npm's errors.
 * @param {string[]} errors
 * @param {number | null} code
 */
function reasonOf(errors, code) {
  const informative = errors.filter(
    (line) =>
      !/^(code|errno|syscall|A complete log|path|node:|\[|\{|\}|at )/.test(line) &&
      !/^network (This is|In most)/.test(line),
  );
  return informative[0] ?? errors[0] ?? `npm ended with ${code}`;
}

/**
 * Removes settings of an outer npm that an inner npm refuses, and node_modules/.bin, whose Node is
 * about to be replaced.
 * @param {NodeJS.ProcessEnv} environment
 */
function environmentOf(environment) {
  const { npm_config_allow_scripts: _, ...rest } = environment;
  const path = (rest.PATH ?? "")
    .split(delimiter)
    .filter((directory) => !directory.endsWith(join("node_modules", ".bin")));
  return { ...rest, PATH: path.join(delimiter) };
}
