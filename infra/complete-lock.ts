/**
 * Completes package-lock.json with the builds for other platforms that a registry mirror did not
 * offer when the lock was made: `npm ci` refuses a lock that lacks them. Run it by `npm run lock`
 * after any change of the dependencies. Such an entry has no integrity hash.
 */
import { readFileSync, writeFileSync } from "node:fs";

interface LockedPackage {
  version?: string;
  dev?: boolean;
  optional?: boolean;
  os?: string[];
  cpu?: string[];
  libc?: string[];
  optionalDependencies?: Record<string, string>;
}

export interface Lock {
  packages: Record<string, LockedPackage>;
}

const systems = ["aix", "android", "darwin", "freebsd", "linux", "netbsd", "openbsd", "openharmony", "sunos", "win32"];
const processors = ["arm", "arm64", "ia32", "loong64", "mips64el", "ppc64", "riscv64", "s390x", "wasm32", "x64"];

/**
 * A build for what its name says: `@oxc-parser/binding-linux-arm64-musl` → linux, arm64, musl.
 * Fields stand in npm's order.
 */
function buildOf(name: string, version: string, dev: boolean | undefined): LockedPackage {
  const words = name.split(/[/-]/);
  const os = words.find((word) => systems.includes(word));
  const cpu = words.find((word) => processors.includes(word));
  const libc = words.some((word) => word.startsWith("musl"))
    ? "musl"
    : words.some((word) => word.startsWith("gnu"))
      ? "glibc"
      : undefined;
  return {
    version,
    ...(cpu && { cpu: [cpu] }),
    ...(dev && { dev }),
    ...(os === "linux" && libc && { libc: [libc] }),
    optional: true,
    ...(os && { os: [os] }),
  };
}

/**
 * The optional dependencies that the lock names and does not describe, by their place in the tree.
 */
export function missingBuildsOf(lock: Lock): Record<string, LockedPackage> {
  const missing: Record<string, LockedPackage> = {};
  for (const [path, parent] of Object.entries(lock.packages)) {
    for (const [name, version] of Object.entries(parent.optionalDependencies ?? {})) {
      const place = `node_modules/${name}`;
      if (lock.packages[place] || lock.packages[`${path}/${place}`]) continue;
      missing[place] = buildOf(name, version, parent.dev);
    }
  }
  return missing;
}

if (import.meta.main) {
  const file = new URL("../package-lock.json", import.meta.url);
  const lock = JSON.parse(readFileSync(file, "utf8")) as Lock;
  const missing = missingBuildsOf(lock);
  const [root, ...others] = Object.entries({ ...lock.packages, ...missing });
  others.sort(([one], [other]) => one.localeCompare(other, "en"));
  writeFileSync(file, `${JSON.stringify({ ...lock, packages: Object.fromEntries([root!, ...others]) }, null, 2)}\n`);
  process.stdout.write(`package-lock.json: ${Object.keys(missing).length} builds added\n`);
}
