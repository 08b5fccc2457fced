/**
 * Podman with its own storage, also inside a sandbox: as root it runs in a mount namespace of its
 * own where no control groups are mounted, and the containers share the host's network.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { root } from "./compose.ts";

const cache = join(root, "node_modules/.cache/image");
const storage = ["--root", join(cache, "storage"), "--runroot", join(cache, "run"), "--cgroup-manager", "cgroupfs"];
const ulimits = ["--ulimit", "nofile=8192:8192", "--ulimit", "nproc=4096:4096"];
const isRoot = process.getuid?.() === 0;

/** The command of a call of Podman. */
function commandOf(args: readonly string[]): [string, string[]] {
  const podman = ["podman", ...(isRoot ? storage : []), ...args];
  if (!isRoot) return ["podman", podman.slice(1)];
  const script = 'mount -t tmpfs tmpfs /sys/fs/cgroup && exec "$@"';
  return ["unshare", ["-m", "sh", "-c", script, "sh", ...podman]];
}

/** A build takes some minutes. */
const timeout = 900_000;

/** Calls Podman and returns its output. Throws with its errors if it fails or takes too long. */
export function podman(...args: string[]): string {
  const [file, allArguments] = commandOf(args);
  const options = { encoding: "utf8", maxBuffer: 1 << 26, timeout, killSignal: "SIGKILL" } as const;
  const { status, signal, stdout, stderr } = spawnSync(file, allArguments, options);
  if (status !== 0) throw new Error(`podman ${args[0]} ended with ${status ?? signal}: ${stderr.slice(-4_000)}`);
  return stdout.trim();
}

/** Whether a call succeeds. */
export const podmanSucceeds = (...args: string[]): boolean => {
  const [file, allArguments] = commandOf(args);
  return spawnSync(file, allArguments, { stdio: "ignore", timeout, killSignal: "SIGKILL" }).status === 0;
};

/**
 * `run` as the chart and the compose file do: no root, no capabilities, and nothing writable but
 * /tmp and the volumes.
 */
export const containerArguments = [
  "run",
  ...["--pull", "never", "--rm", "--read-only", "--read-only-tmpfs=false", "--tmpfs", "/tmp", "--cap-drop", "ALL"],
  ...["--security-opt", "no-new-privileges", "--network", "host", "--volume", "/var/lib/sluice/usage", ...ulimits],
  ...(isRoot ? ["--cgroups", "disabled"] : []),
];

/** Starts a container; signals to the returned process reach the container's. */
export function runContainer(args: readonly string[]): ChildProcess {
  const [file, allArguments] = commandOf([...containerArguments, ...args]);
  return spawn(file, allArguments, { stdio: ["ignore", "pipe", "pipe"] });
}

/** Builds the image from infra/Dockerfile. */
export function buildImage(tag: string, base: string | undefined): void {
  // The registry and certificates of this machine, at the build only.
  const settings = join(cache, "npmrc");
  const npmSetting = (name: string) => execFileSync("npm", ["config", "get", name], { encoding: "utf8" }).trim();
  const cafile = npmSetting("cafile");
  const lines = [`registry=${npmSetting("registry")}`, ...(existsSync(cafile) ? [`cafile=${cafile}`] : [])];
  writeFileSync(settings, `${lines.join("\n")}\n`);
  const certificates = existsSync(cafile) ? ["--volume", `${dirname(cafile)}:${dirname(cafile)}:ro`] : [];
  const sandbox = isRoot ? ["--isolation", "chroot"] : [];
  const from = base === undefined ? [] : ["--from", base];
  podman(
    ...["build", ...from, "--network", "host", ...sandbox, ...ulimits],
    ...[...certificates, "--volume", `${settings}:/root/.npmrc:ro`],
    ...["--file", join(root, "infra/Dockerfile"), "--tag", tag, root],
  );
}

/**
 * The base to build from: undefined where Podman can pull the one that infra/Dockerfile names.
 * Elsewhere a stand-in for it, made from Debian's packages, with this checkout's Node and the
 * machine's npm in the places and with the user of the official image.
 */
export function baseImage(named: string): string | undefined {
  mkdirSync(cache, { recursive: true });
  if (podmanSucceeds("image", "exists", named) || podmanSucceeds("pull", named)) return undefined;
  const standIn = "localhost/node-stand-in:1";
  if (podmanSucceeds("image", "exists", standIn)) return standIn;
  if (!isRoot || spawnSync("debootstrap", ["--version"]).status !== 0)
    throw new Error(
      `${named} cannot be pulled. To build on a stand-in: run as root, with Debian's package debootstrap.`,
    );
  const system = join(cache, "system");
  rmSync(system, { recursive: true, force: true });
  execFileSync("debootstrap", ["--variant=minbase", "bookworm", system], { stdio: ["ignore", "ignore", "inherit"] });
  const local = join(system, "usr/local");
  cpSync(join(root, "node_modules/node/bin/node"), join(local, "bin/node"));
  const modules = execFileSync("npm", ["root", "--global"], { encoding: "utf8" }).trim();
  cpSync(join(modules, "npm"), join(local, "lib/node_modules/npm"), { recursive: true });
  symlinkSync("../lib/node_modules/npm/bin/npm-cli.js", join(local, "bin/npm"));
  execFileSync("chroot", [system, "useradd", "--uid", "1000", "--user-group", "--create-home", "node"]);
  chmodSync(join(local, "bin/node"), 0o755);
  for (const leftover of ["var/cache/apt", "var/lib/apt/lists"]) rmSync(join(system, leftover), { recursive: true });
  const archive = join(cache, "system.tar");
  execFileSync("tar", ["--create", "--file", archive, "--directory", system, "."]);
  podman("import", archive, standIn);
  for (const made of [system, archive]) rmSync(made, { recursive: true });
  return standIn;
}
