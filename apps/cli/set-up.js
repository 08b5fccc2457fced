/**
 * Sets the checkout up and starts the command on Node 24: `run <script>` and `test <script>` with
 * npm, all other commands with main.ts.
 */
import { spawn } from "node:child_process";
import { accessSync, constants, mkdirSync, readFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ensureInstalled, SetUpFault } from "./install.js";

const root = fileURLToPath(new URL("../../", import.meta.url)).replace(/[/\\]$/, "");
const main = join(root, "apps", "cli", "main.ts");
const signals = /** @type {NodeJS.Signals[]} */ (["SIGINT", "SIGTERM", "SIGHUP"]);
const npmCheckMs = 1_000;

/**
 * Ends the process with the exit code of the command, or with 1 and a one-line error.
 * @param {string[]} args of the command line
 */
export async function boot(args) {
  for (const output of [process.stdout, process.stderr]) output.on("error", () => {});
  try {
    if (process.platform === "win32")
      throw new SetUpFault("Redis does not run on Windows; use WSL, or the containers of docker-compose.yml");
    ensureState();
    const { runtime } = await ensureInstalled(root);
    const [command, ...rest] = args;
    process.exitCode =
      command === "run"
        ? await runScript(runtime, rest)
        : command === "test"
          ? await testScript(runtime, rest)
          : await dispatch(runtime, [main, ...args], process.env);
  } catch (error) {
    if (!(error instanceof SetUpFault)) throw error;
    process.stderr.write(`sluice: ${error.message}\n`);
    process.exitCode = 1;
  }
}

/** Creates `.sluice`, the directory for all files outside the repository. */
function ensureState() {
  const directory = join(root, ".sluice");
  try {
    mkdirSync(join(directory, "log"), { recursive: true, mode: 0o700 });
    accessSync(directory, constants.W_OK);
  } catch (error) {
    throw new SetUpFault(`cannot write ${directory}: ${/** @type {NodeJS.ErrnoException} */ (error).code}`);
  }
}

/**
 * @param {string} runtime
 * @param {string[]} script and its arguments
 */
async function runScript(runtime, [script, ...args]) {
  if (script === undefined) throw new SetUpFault("a script is required: run <script of package.json>");
  const path = [join(root, "node_modules", ".bin"), dirname(runtime), process.env.PATH ?? ""].join(delimiter);
  return dispatch(
    "npm",
    ["run", script, ...(args.length > 0 ? ["--", ...args] : [])],
    { ...process.env, PATH: path },
    root,
  );
}

/**
 * Runs a script that needs the programs of the tests.
 * @param {string} runtime
 * @param {string[]} script and its arguments
 */
async function testScript(runtime, script) {
  const programs = await dispatch(runtime, [main, "test-programs"], process.env);
  return programs === 0 ? runScript(runtime, script) : programs;
}

/**
 * Runs a command in this terminal until it ends and forwards signals to it. The command detects the
 * end of this process by the closed IPC channel.
 * @param {string} command
 * @param {string[]} args
 * @param {NodeJS.ProcessEnv} environment
 * @param {string} [directory]
 * @returns {Promise<number>} its exit code
 */
function dispatch(command, args, environment, directory) {
  return new Promise((resolve) => {
    const isNode = command !== "npm";
    const pass = (/** @type {NodeJS.Signals} */ signal) => child.kill(signal);
    // Before the child exists, because a signal in between would end only this process.
    for (const signal of signals) process.on(signal, pass);
    const child = spawn(command, args, {
      cwd: directory,
      env: environment,
      stdio: isNode ? ["inherit", "inherit", "inherit", "ipc"] : "inherit",
    });
    const check = watchNpm(() => child.kill("SIGTERM"));
    const settle = (/** @type {number} */ exitCode) => {
      clearInterval(check);
      for (const signal of signals) process.off(signal, pass);
      resolve(exitCode);
    };
    child.on("error", (error) => {
      process.stderr.write(`sluice: cannot run ${command}: ${error.message}\n`);
      settle(1);
    });
    child.on("exit", (code, signal) => settle(code ?? (signal === "SIGINT" ? 130 : signal === "SIGTERM" ? 143 : 1)));
  });
}

/**
 * A killed npm cannot forward the signal, so its command checks whether npm still runs.
 * @param {() => void} onGone
 */
function watchNpm(onGone) {
  if (process.env.npm_lifecycle_event === undefined) return undefined;
  const parent = process.ppid;
  const shellParent = isShell(parent) ? parentOf(parent) : undefined;
  return setInterval(() => {
    if (process.ppid !== parent || (shellParent !== undefined && parentOf(parent) !== shellParent)) onGone();
  }, npmCheckMs);
}

/**
 * npm runs scripts in a shell. Some shells replace themselves with the command, others stay as its
 * parent.
 * @param {number} pid
 */
const isShell = (pid) => /sh$/.test(procTextOf(pid, "comm").trim());

/** @param {number} pid */
const parentOf = (pid) =>
  Number(
    procTextOf(pid, "stat")
      .replace(/^.*\) /s, "")
      .split(" ")[1],
  );

/**
 * Empty where the system has no /proc.
 * @param {number} pid
 * @param {"comm" | "stat"} name
 */
function procTextOf(pid, name) {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "utf8");
  } catch {
    return "";
  }
}
