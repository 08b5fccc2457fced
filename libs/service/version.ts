/** The version of this checkout, and of the build from it. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

const root = new URL("../../", import.meta.url);

export const { version } = JSON.parse(readFileSync(new URL("package.json", root), "utf8")) as { version: string };

/**
 * The commit: an image has it in `SLUICE_COMMIT`, a checkout in Git. Undefined if neither says, as
 * in a copy without Git, or one inside another repository.
 */
function commitOf(environment: NodeJS.ProcessEnv): string | undefined {
  const named = environment.SLUICE_COMMIT;
  if (named) return /^[0-9a-f]{7,64}$/.test(named) ? named.slice(0, 12) : undefined;
  try {
    const args = ["rev-parse", "--show-prefix", "--short=12", "HEAD"];
    const [prefix, commit] = execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: "pipe" }).split("\n");
    return prefix === "" ? commit : undefined;
  } catch {
    return undefined;
  }
}

const commit = commitOf(process.env);

/** As https://semver.org/#spec-item-10 writes a build. */
export const build: string = commit === undefined ? version : `${version}+${commit}`;
