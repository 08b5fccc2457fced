import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { test } from "node:test";
import { takeLock } from "#service/lock.js";
import { checkout, isGone, until } from "./gateway.ts";

const lockOf = (version: string, more: object = {}) =>
  JSON.stringify({ packages: { "": {}, "node_modules/one": { version, ...more } } });

/** A checkout without dependencies, and an npm that installs almost nothing. */
function makeCheckout(): Disposable & { root: string } {
  const root = mkdtempSync(join(tmpdir(), "sluice-boot-"));
  const directory = join(root, "apps", "cli");
  mkdirSync(directory, { recursive: true });
  for (const name of readdirSync(join(checkout, "apps", "cli")).filter((file) => file.endsWith(".js"))) {
    copyFileSync(join(checkout, "apps", "cli", name), join(directory, name));
  }
  copyFileSync(join(checkout, "test", "cli", "fixtures", "main.ts"), join(directory, "main.ts"));
  mkdirSync(join(root, "libs", "service"), { recursive: true });
  copyFileSync(join(checkout, "libs", "service", "lock.js"), join(root, "libs", "service", "lock.js"));
  writeFileSync(join(root, "package.json"), '{"type": "module", "imports": {"#*": "./libs/*"}}');
  writeFileSync(join(root, "package-lock.json"), lockOf("1.0.0"));
  mkdirSync(join(root, "bin"));
  copyFileSync(join(checkout, "test", "cli", "fixtures", "npm.cjs"), join(root, "bin", "npm"));
  writeFileSync(join(root, "bin", "package.json"), '{"type": "commonjs"}');
  chmodSync(join(root, "bin", "npm"), 0o755);
  return { root, [Symbol.dispose]: () => rmSync(root, { recursive: true, force: true }) };
}

interface Booted {
  child: ChildProcess;
  output(): { out: string; error: string };
  ended: Promise<number | NodeJS.Signals>;
}

function boot(root: string, args: string[], environment: NodeJS.ProcessEnv = {}): Booted {
  const path = environment.PATH ?? [join(root, "bin"), dirname(process.execPath)].join(delimiter);
  const env = { ...process.env, ...environment, PATH: path };
  const child = spawn(process.execPath, [join(root, "apps", "cli", "boot.js"), ...args], {
    cwd: root,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = { out: "", error: "" };
  child.stdout.on("data", (chunk) => {
    output.out += chunk;
  });
  child.stderr.on("data", (chunk) => {
    output.error += chunk;
  });
  return { child, output: () => output, ended: once(child, "close").then(([code, signal]) => code ?? signal) };
}

const callsOf = (root: string) =>
  existsSync(join(root, "npm-calls")) ? readFileSync(join(root, "npm-calls"), "utf8").trim().split("\n") : [];
const lastLineOf = ({ output }: Booted) => JSON.parse(output().out.trim().split("\n").at(-1)!);

test("the first boot installs the locked dependencies, and later boots only a changed lock", async () => {
  using place = makeCheckout();
  const { root } = place;
  const first = boot(root, ["keys", "list"]);
  assert.equal(await first.ended, 0);
  assert.match(first.output().out, /^Installing dependencies …\n(.*\n)*Installing dependencies: done in \d+ s\n/);
  assert.deepEqual(lastLineOf(first).args, ["keys", "list"]);
  assert.match(readFileSync(join(root, ".sluice", "log", "install.log"), "utf8"), /one-1\.0\.0\.tgz/);

  const second = boot(root, ["help"]);
  assert.equal(await second.ended, 0);
  assert.equal(second.output().out.split("\n").length, 2);
  assert.equal(callsOf(root).length, 1);

  writeFileSync(join(root, "package-lock.json"), lockOf("2.0.0"));
  assert.equal(await boot(root, ["help"]).ended, 0);
  assert.equal(callsOf(root).length, 2);
  assert.match(callsOf(root)[0]!, /^ci /);
});

test("a manual npm ci counts, unless it is another version, incomplete, or for another machine", async () => {
  using place = makeCheckout();
  const { root } = place;
  const npm = spawn(process.execPath, [join(root, "bin", "npm"), "ci"], { cwd: root, stdio: "ignore" });
  await once(npm, "close");
  const nothing = '{"packages": {}}';
  const locked = lockOf("1.0.0");
  const forOthers = lockOf("1.0.0", { optional: true, os: ["another"] });
  const cases: { lock: string; installed: string; isGood: boolean }[] = [
    { lock: locked, installed: locked, isGood: true },
    { lock: locked, installed: nothing, isGood: false },
    { lock: locked, installed: "half a fi", isGood: false },
    { lock: locked, installed: lockOf("1.0.0", { integrity: "sha512-another" }), isGood: false },
    { lock: forOthers, installed: nothing, isGood: true },
    { lock: forOthers, installed: forOthers, isGood: false },
  ];
  for (const { lock, installed, isGood } of cases) {
    writeFileSync(join(root, "package-lock.json"), lock);
    writeFileSync(join(root, "node_modules", ".package-lock.json"), installed);
    const before = callsOf(root).length;
    assert.equal(await boot(root, ["help"]).ended, 0);
    assert.equal(callsOf(root).length - before, isGood ? 0 : 1, `${lock} ${installed}`);
  }
});

test("an unreadable lock gives a one-line error", async () => {
  using place = makeCheckout();
  writeFileSync(join(place.root, "package-lock.json"), "<<<<<<< ours");
  const failed = boot(place.root, ["help"]);
  assert.equal(await failed.ended, 1);
  assert.equal(failed.output().error, "sluice: package-lock.json is missing or invalid\n");
});

test("of two concurrent boots one installs and the other waits", async () => {
  using place = makeCheckout();
  const both = [boot(place.root, ["help"], { FAKE_NPM: "wait" }), boot(place.root, ["help"], { FAKE_NPM: "wait" })];
  await until("the second to wait", () =>
    both.some(({ output }) => output().error.includes("is installing the dependencies")),
  );
  writeFileSync(join(place.root, "go"), "");
  assert.deepEqual(await Promise.all(both.map(({ ended }) => ended)), [0, 0]);
  assert.equal(callsOf(place.root).length, 1);
});

test("a failed installation gives a one-line error with npm's reason", async () => {
  using place = makeCheckout();
  const failed = boot(place.root, ["help"], { FAKE_NPM: "fail" });
  assert.equal(await failed.ended, 1);
  assert.match(
    failed.output().error,
    /^sluice: installing the dependencies failed: FetchError: no such host \(log: .*install\.log\)\n$/,
  );
  assert.equal(await boot(place.root, ["help"]).ended, 0);
});

test("without npm on PATH the error says so in one line", async () => {
  using place = makeCheckout();
  const failed = boot(place.root, ["help"], { PATH: dirname(process.execPath) });
  assert.equal(await failed.ended, 1);
  assert.match(failed.output().error, /^sluice: installing the dependencies failed: npm is not on PATH .*\n$/);
});

test("a signal ends the installation and npm", async () => {
  using place = makeCheckout();
  const stopped = boot(place.root, ["help"], { FAKE_NPM: "hang" });
  await until("npm", () => callsOf(place.root).length === 1);
  stopped.child.kill("SIGTERM");
  assert.equal(await stopped.ended, 1);
  assert.match(stopped.output().error, /stopped by SIGTERM/);
  assert.equal(existsSync(join(place.root, ".sluice", "install.lock")), false);
});

test("the dependencies of a running gateway are not replaced", async () => {
  using place = makeCheckout();
  assert.equal(await boot(place.root, ["help"]).ended, 0);
  const lock = takeLock(join(place.root, ".sluice", "start.lock"));
  assert.equal(lock.kind, "taken");
  writeFileSync(join(place.root, "package-lock.json"), lockOf("2.0.0"));
  const refused = boot(place.root, ["help"]);
  assert.equal(await refused.ended, 1);
  assert.match(
    refused.output().error,
    new RegExp(`the gateway runs in this checkout \\(process ${process.pid}\\); stop it first\n$`),
  );
});

test("test finds the programs of the tests, then runs the script with npm and the installed Node first on PATH", async () => {
  using place = makeCheckout();
  const run = boot(place.root, ["test", "check", "one"]);
  assert.equal(await run.ended, 0);
  assert.match(run.output().out, /"args":\["test-programs"\]/);
  const { args, path } = lastLineOf(run);
  assert.deepEqual(args, ["run", "check", "--", "one"]);
  assert.deepEqual(path.split(delimiter).slice(0, 2), [
    join(place.root, "node_modules", ".bin"),
    join(place.root, "node_modules", "node", "bin"),
  ]);
});

test("run runs the script without the programs of the tests", async () => {
  using place = makeCheckout();
  const run = boot(place.root, ["run", "dev:run"]);
  assert.equal(await run.ended, 0);
  assert.doesNotMatch(run.output().out, /test-programs/);
  assert.deepEqual(lastLineOf(run).args, ["run", "dev:run"]);
});

test("signals reach the command, and its exit code is returned", async () => {
  using place = makeCheckout();
  const waiting = boot(place.root, ["wait"]);
  await until("the command to run", () => waiting.output().out.includes('"args":["wait"]'));
  waiting.child.kill("SIGTERM");
  assert.equal(await waiting.ended, 7);
  assert.match(waiting.output().out, /stopped: SIGTERM\n/);
});

test("the command detects that its boot process was killed", async () => {
  using place = makeCheckout();
  const waiting = boot(place.root, ["wait"]);
  await until("the command to run", () => waiting.output().out.includes('"args":["wait"]'));
  waiting.child.kill("SIGKILL");
  await waiting.ended;
  assert.match(waiting.output().out, /stopped: disconnect\n/);
  assert.ok(isGone(waiting.child.pid!));
});

test("the command ends when npm is killed, even with a shell between them", {
  skip: process.platform !== "linux" && "needs /proc",
}, async () => {
  using place = makeCheckout();
  const inShell = `"${process.execPath}" apps/cli/boot.js wait; true`;
  const npm = spawn(
    process.execPath,
    ["-e", `require("node:child_process").spawn("sh", ["-c", ${JSON.stringify(inShell)}], { stdio: "inherit" })`],
    {
      cwd: place.root,
      env: {
        ...process.env,
        npm_lifecycle_event: "start",
        PATH: [join(place.root, "bin"), dirname(process.execPath), process.env.PATH].join(delimiter),
      },
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  let out = "";
  npm.stdout.on("data", (chunk) => {
    out += chunk;
  });
  await until("the command to run", () => out.includes('"args":["wait"]'));
  npm.kill("SIGKILL");
  await once(npm, "close");
  assert.match(out, /stopped: SIGTERM\n/);
});
