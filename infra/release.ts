/**
 * `npm run release -- v<version> [directory] [--no-image]`: makes what a release publishes, from
 * the tag and not from the files of the checkout: the image, the chart, a list of the image's
 * packages (SBOM), the notes and the checksums. Without Docker and Podman it makes everything else,
 * and says so.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const root = resolve(import.meta.dirname, "..");
const outputBytesMax = 1 << 28;

const noImage = "--no-image";

class ReleaseFault extends Error {}

function run(program: string, args: readonly string[], cwd: string): string {
  const { status, stdout, error } = spawnSync(program, args, {
    cwd,
    encoding: "utf8",
    maxBuffer: outputBytesMax,
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (status !== 0) throw new ReleaseFault(`${program} ${args[0]} failed${error ? `: ${error.message}` : ""}`);
  return stdout;
}

interface Release {
  hasImage: boolean;
  version: string;
  commit: string;
  /** The files of the tag. */
  tree: string;
  /** Receives what is published. */
  output: string;
}

function commitOf(tag: string): string {
  const { status, stdout } = spawnSync("git", ["rev-parse", "--verify", "--quiet", `refs/tags/${tag}^{commit}`], {
    cwd: root,
    encoding: "utf8",
  });
  if (status !== 0) throw new ReleaseFault(`there is no tag ${tag}; make it first, as CONTRIBUTING.md says`);
  return stdout.trim();
}

/** The changelog's entries of a version. Throws ReleaseFault if files of the tree disagree. */
function entriesOf({ version, tree }: Release): string {
  const textOf = (file: string) => readFileSync(join(tree, file), "utf8");
  const versions = {
    "package.json": (JSON.parse(textOf("package.json")) as { version: string }).version,
    "package-lock.json": (JSON.parse(textOf("package-lock.json")) as { version: string }).version,
    "the chart's version": /^version: (.+)$/m.exec(textOf("infra/kubernetes/sluice/Chart.yaml"))?.[1],
    "the chart's appVersion": /^appVersion: (.+)$/m.exec(textOf("infra/kubernetes/sluice/Chart.yaml"))?.[1],
  };
  for (const [place, own] of Object.entries(versions))
    if (own !== version) throw new ReleaseFault(`${place} has ${own}, and the tag v${version}`);
  const sections = textOf("CHANGELOG.md").split(/^## /m);
  const section = sections.find((text) => text.split("\n", 1)[0]?.trim() === version);
  const entries = section?.slice(section.indexOf("\n")).trim();
  if (!entries) throw new ReleaseFault(`CHANGELOG.md has no entries under "## ${version}"`);
  return entries;
}

/** The chart as `helm package` makes it, but the same bytes at each run. */
function packageChart({ version, tree, output, commit }: Release): void {
  const time = run("git", ["show", "--no-patch", "--format=%ct", commit], root).trim();
  const stable = ["--sort=name", `--mtime=@${time}`, "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"];
  const archive = join(output, `sluice-chart-${version}.tgz`);
  const args = ["--create", ...stable, "--use-compress-program=gzip --no-name", "--dereference", "--file", archive];
  run("tar", [...args, "--exclude-from=sluice/.helmignore", "sluice"], join(tree, "infra/kubernetes"));
}

interface Sbom {
  components: { "bom-ref": string; name: string; version: string }[];
  dependencies: { ref: string; dependsOn: string[] }[];
}

/**
 * The npm packages that infra/Dockerfile installs, in the format CycloneDX. `npm sbom` itself
 * leaves out required packages that are also optional ones of others.
 */
export function sbomOf(tree: string): Sbom {
  const options = ["--package-lock-only", "--sbom-format=cyclonedx", "--sbom-type=application"];
  const all = JSON.parse(run("npm", ["sbom", ...options], tree)) as Sbom;
  const { packages } = JSON.parse(readFileSync(join(tree, "package-lock.json"), "utf8")) as {
    packages: Record<string, { version: string; dev?: boolean; optional?: boolean; devOptional?: boolean }>;
  };
  const installed = new Set(
    Object.entries(packages)
      .filter(([, { dev, optional, devOptional }]) => !(dev || optional || devOptional))
      .map(([path, { version }]) => `${path.split("node_modules/").at(-1)}@${version}`),
  );
  const components = all.components.filter((component) => installed.has(component["bom-ref"]));
  const left = new Set(components.map((component) => component["bom-ref"]));
  const dependencies = all.dependencies
    .filter(({ ref }, index) => index === 0 || left.has(ref))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((one) => left.has(one)) }));
  return { ...all, components, dependencies };
}

/** The image as an archive for `docker load`. Returns its name, or undefined without a builder. */
function buildImage({ version, commit, tree, output }: Release): string | undefined {
  const builder = ["docker", "podman"].find((program) => spawnSync(program, ["info"]).status === 0);
  if (builder === undefined) return undefined;
  const image = `sluice:${version}`;
  const argument = ["--build-arg", `SLUICE_COMMIT=${commit}`];
  run(builder, ["build", "--file", "infra/Dockerfile", ...argument, "--tag", image, "."], tree);
  const archive = join(output, `sluice-image-${version}.tar`);
  run(builder, ["save", "--output", archive, image], tree);
  run("gzip", ["--no-name", archive], tree);
  return image;
}

function publish(release: Release): void {
  const { version, commit, tree, output } = release;
  const entries = entriesOf(release);
  packageChart(release);
  writeFileSync(join(output, `sluice-${version}.cdx.json`), `${JSON.stringify(sbomOf(tree), undefined, 2)}\n`);
  const image = release.hasImage ? buildImage(release) : undefined;
  const origin = `Made from the commit ${commit}.`;
  writeFileSync(join(output, `sluice-${version}.md`), `# Sluice ${version}\n\n${entries}\n\n${origin}\n`);
  const checksums = readdirSync(output)
    .sort()
    .map(
      (file) =>
        `${createHash("sha256")
          .update(readFileSync(join(output, file)))
          .digest("hex")}  ${file}\n`,
    );
  writeFileSync(join(output, "SHA256SUMS"), checksums.join(""));
  process.stdout.write(`${readdirSync(output).join("\n")}\n`);
  if (release.hasImage && image === undefined)
    process.stderr.write("no image: neither Docker nor Podman answers here\n");
}

function main(args: readonly string[]): void {
  const [tag = "", directory = `release/${tag}`] = args.filter((argument) => argument !== noImage);
  const temporary = mkdtempSync(join(tmpdir(), "release-"));
  try {
    if (!/^v\d+\.\d+\.\d+$/.test(tag))
      throw new ReleaseFault(`usage: npm run release -- v<version> [directory] [${noImage}]`);
    const commit = commitOf(tag);
    const target = resolve(directory);
    if (existsSync(target)) throw new ReleaseFault(`${target} exists; remove it, or name another directory`);
    const [tree, output] = [join(temporary, "sluice"), join(temporary, "output")];
    for (const made of [tree, output]) mkdirSync(made);
    const archive = join(temporary, "tree.tar");
    run("git", ["archive", "--output", archive, commit], root);
    run("tar", ["--extract", "--file", archive], tree);
    publish({ version: tag.slice(1), commit, tree, output, hasImage: !args.includes(noImage) });
    // All of it or nothing.
    cpSync(output, target, { recursive: true });
  } catch (error) {
    if (!(error instanceof ReleaseFault)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  } finally {
    rmSync(temporary, { recursive: true });
  }
}

if (import.meta.main) main(process.argv.slice(2));
