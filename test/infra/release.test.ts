/** infra/release.ts in a repository of its own, with a stand-in for Docker. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { root, textOf } from "./compose.ts";

const directory = mkdtempSync(join(tmpdir(), "release-test-"));
after(() => rmSync(directory, { recursive: true }));
const checkout = join(directory, "checkout");
const { version } = JSON.parse(textOf("package.json")) as { version: string };

for (const path of ["package.json", "package-lock.json", "CHANGELOG.md", "infra"])
  cpSync(join(root, path), join(checkout, path), { recursive: true, verbatimSymlinks: true });
const git = (...args: string[]) =>
  execFileSync("git", ["-c", "user.name=A", "-c", "user.email=a@example.com", ...args], {
    cwd: checkout,
    encoding: "utf8",
  });
git("init", "--quiet");
git("add", ".");
git("commit", "--quiet", "--message", "Release");
git("tag", `v${version}`);
const commit = git("rev-parse", "HEAD").trim();
// Work that goes on after the tag is no part of the release.
writeFileSync(join(checkout, "infra/kubernetes/sluice/values.yaml"), "later: true\n");

const programs = join(directory, "programs");
mkdirSync(programs);
/** Writes down what it was called with, and saves an image. */
const standIn = `#!/bin/sh
echo "$@" >> "${directory}/calls"
[ "$1" != build ] || { grep -q later infra/kubernetes/sluice/values.yaml && exit 1; }
[ "$1" != save ] || echo image > "$3"
exit 0
`;
for (const program of ["docker", "podman"]) {
  writeFileSync(join(programs, program), standIn);
  chmodSync(join(programs, program), 0o755);
}

/** Without a builder, programs that fail stand in its place. */
function release(
  tag: string,
  output: string,
  hasBuilder = true,
): { status: number | null; stdout: string; stderr: string } {
  for (const program of ["docker", "podman"])
    writeFileSync(join(programs, program), hasBuilder ? standIn : "#!/bin/sh\nexit 1\n");
  const env = { ...process.env, PATH: `${programs}:${process.env.PATH}` };
  return spawnSync(process.execPath, [join(checkout, "infra/release.ts"), tag, join(directory, output)], {
    cwd: directory,
    env,
    encoding: "utf8",
  });
}
const filesOf = (output: string) => readdirSync(join(directory, output)).sort();
const read = (output: string, file: string) => readFileSync(join(directory, output, file));

test("a release has image, chart, packages, notes and checksums, all from the tag", () => {
  const { status, stderr } = release(`v${version}`, "first");
  assert.equal(status, 0, stderr);
  const files = [
    ...["SHA256SUMS", `sluice-${version}.cdx.json`, `sluice-${version}.md`],
    ...[`sluice-chart-${version}.tgz`, `sluice-image-${version}.tar.gz`],
  ];
  assert.deepEqual(filesOf("first"), files);
  const checksums = files
    .slice(1)
    .map((file) => `${createHash("sha256").update(read("first", file)).digest("hex")}  ${file}\n`);
  assert.equal(read("first", "SHA256SUMS").toString(), checksums.join(""));

  const calls = readFileSync(join(directory, "calls"), "utf8");
  assert.match(
    calls,
    new RegExp(`^build --file infra/Dockerfile --build-arg SLUICE_COMMIT=${commit} --tag sluice:${version} \\.$`, "m"),
  );

  const inChart = (file: string) =>
    execFileSync("tar", ["-xzOf", join(directory, "first", `sluice-chart-${version}.tgz`), `sluice/${file}`], {
      encoding: "utf8",
    });
  assert.equal(inChart("values.yaml"), textOf("infra/kubernetes/sluice/values.yaml"));
  assert.equal(
    inChart("files/alerts.yml"),
    textOf("infra/prometheus/alerts.yml"),
    "no link, which leads out of the archive",
  );

  const { metadata, components } = JSON.parse(read("first", `sluice-${version}.cdx.json`).toString()) as {
    metadata: { component: { name: string; version: string } };
    components: { name: string }[];
  };
  assert.deepEqual([metadata.component.name, metadata.component.version], ["sluice", version]);
  const names = components.map(({ name }) => name);
  const { dependencies } = JSON.parse(textOf("package.json")) as { dependencies: Record<string, string> };
  for (const name of Object.keys(dependencies)) assert.ok(names.includes(name), name);
  assert.ok(!names.includes("typescript") && !names.includes("vite"));

  const notes = read("first", `sluice-${version}.md`).toString();
  assert.ok(notes.startsWith(`# Sluice ${version}\n\n`) && notes.includes(commit));
  assert.doesNotMatch(notes, /^## /m, "no other version's entries");
});

test("the chart of a tag has the same bytes each time; without a builder only the image is left out", () => {
  const { status, stderr } = release(`v${version}`, "second", false);
  assert.equal(status, 0, stderr);
  assert.match(stderr, /no image: neither Docker nor Podman/);
  assert.deepEqual(
    filesOf("second"),
    filesOf("first").filter((file) => !file.includes("image")),
  );
  const chart = `sluice-chart-${version}.tgz`;
  assert.deepEqual(read("second", chart), read("first", chart));
});

test("no release of a tag that is not there, that other files contradict, or over another one", () => {
  const { stderr } = release("v99.0.0", "third");
  assert.match(stderr, /there is no tag v99\.0\.0/);
  assert.match(release("main", "third").stderr, /usage/);
  assert.match(release(`v${version}`, "first").stderr, /first exists; remove it/);
  git("tag", "v98.0.0");
  const { status, stderr: contradiction } = release("v98.0.0", "fourth");
  assert.equal(status, 1);
  assert.match(contradiction, new RegExp(`package.json has ${version.replaceAll(".", "\\.")}, and the tag v98.0.0`));
  writeFileSync(join(programs, "npm"), "#!/bin/sh\nexit 3\n", { mode: 0o755 });
  const failure = release(`v${version}`, "fourth");
  assert.deepEqual([failure.status, failure.stderr], [1, "npm sbom failed\n"]);
  assert.ok(!existsSync(join(directory, "fourth")), "all of it or nothing");
});
