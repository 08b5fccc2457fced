/** An earlier version of this repository, as a checkout that the bench can run beside this one. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { checkout } from "../../apps/cli/state.ts";

const git = (...args: string[]) => execFileSync("git", args, { cwd: checkout, encoding: "utf8", stdio: "pipe" }).trim();

/** The packages of a lock, without the repository's own version. */
function packagesOf(lock: string): string {
  const { packages } = JSON.parse(lock) as { packages: Record<string, unknown> };
  return JSON.stringify({ ...packages, "": undefined });
}

export type Earlier = { kind: "checkout"; directory: string; what: string } | { kind: "absent"; reason: string };

/** The newest tag `v…`, or the commit that gave this version its number. */
function lastRelease(): string {
  try {
    return git("describe", "--tags", "--abbrev=0", "--match", "v*");
  } catch {
    return git("log", "--max-count=1", "--format=%h", '-G^  "version":', "--", "package.json");
  }
}

/** The commit that added a file; undefined if it is not in this repository's history. */
export function firstWith(path: string): string | undefined {
  try {
    return git("log", "--diff-filter=A", "--format=%h", "--", path).split("\n").at(-1) || undefined;
  } catch {
    return undefined;
  }
}

/**
 * The checkout `beside`, or a worktree of `release` in a temporary directory, which ends with this
 * process; by default the last release.
 */
export function earlierVersion({ beside, release }: { beside?: string; release?: string }): Earlier {
  if (beside !== undefined) return { kind: "checkout", directory: resolve(beside), what: basename(resolve(beside)) };
  try {
    const ref = release ?? lastRelease();
    const parent = mkdtempSync(join(tmpdir(), "sluice-bench-release-"));
    const directory = join(parent, "checkout");
    git("worktree", "add", "--detach", directory, ref);
    process.on("exit", () => {
      git("worktree", "remove", "--force", directory);
      rmSync(parent, { recursive: true, force: true });
    });
    const lock = readFileSync(join(directory, "package-lock.json"), "utf8");
    if (packagesOf(lock) === packagesOf(readFileSync(join(checkout, "package-lock.json"), "utf8")))
      symlinkSync(join(checkout, "node_modules"), join(directory, "node_modules"));
    else execFileSync("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], { cwd: directory, stdio: "pipe" });
    return { kind: "checkout", directory, what: ref };
  } catch (error) {
    if (release !== undefined) throw error;
    return {
      kind: "absent",
      reason: "the last release is not in this repository's history; name a commit or a checkout",
    };
  }
}
