/** Installs packages in a folder beside the project, which is kept for the next run. */
import { existsSync } from "node:fs";
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Client, type Installed, type Registry, registries, runProgram } from "./client.ts";
import { pinned } from "./pinned.ts";

const timeoutMs = 600_000;

/**
 * `pinned`: the versions of `pinned.ts`; a package that it does not name is installed in its newest
 * version.
 */
export type VersionSet = "newest" | "pinned";

const packagesOf = (clients: readonly Client[]) => [...new Set(clients.flatMap(({ packages }) => packages))];

type Installer = (file: string, args: string[]) => Promise<string>;

function installerIn(cwd: string, signal: AbortSignal): Installer {
  return async (file, args) => {
    const options = { cwd, environment: process.env, timeoutMs, signal };
    const { code, stdout, output } = await runProgram(file, args, options).catch((error) => {
      throw error.code === "ENOENT" ? new Error(`${file} is not installed on this machine`) : error;
    });
    if (code !== 0) throw new Error(`${file} ${args.join(" ")} ended with ${code}: ${output}`);
    return stdout;
  };
}

/** Returns the version of every package. */
async function installFromNpm(names: string[], set: VersionSet, folder: string, run: Installer) {
  const wanted = names.map((name) => `${name}@${(set === "pinned" && pinned.npm[name]) || "latest"}`);
  // The packages of earlier runs stay.
  if (!existsSync(join(folder, "package.json")))
    await writeFile(join(folder, "package.json"), '{"private":true,"type":"module"}');
  await run("npm", ["install", "--no-audit", "--no-fund", ...wanted]);
  const versionOf = async (name: string): Promise<[string, string]> => {
    const text = await readFile(join(folder, "node_modules", name, "package.json"), "utf8");
    return [name, (JSON.parse(text) as { version: string }).version];
  };
  return Promise.all(names.map(versionOf));
}

/** Returns the version of every package. */
async function installFromPypi(names: string[], set: VersionSet, python: string, run: Installer) {
  const wanted = names.map((name) =>
    set === "pinned" && pinned.pypi[name] !== undefined ? `${name}==${pinned.pypi[name]}` : name,
  );
  await run("python3", ["-m", "venv", join(python, "..", "..")]);
  await run(python, ["-m", "pip", "install", "--quiet", "--no-input", "--upgrade", ...wanted]);
  const program =
    "import importlib.metadata, json, sys; print(json.dumps([importlib.metadata.version(name) for name in sys.argv[1:]]))";
  const versions = JSON.parse(await run(python, ["-c", program, ...names])) as string[];
  return names.map((name, index): [string, string] => [name, versions[index] as string]);
}

/** Builds the program; returns the version of every module. */
async function installFromGo(names: string[], set: VersionSet, program: string, run: Installer) {
  const wanted = names.map((name) => `${name}@${(set === "pinned" && pinned.go[name]) || "latest"}`);
  await run("go", ["get", ...wanted]);
  await run("go", ["mod", "tidy"]);
  await run("go", ["build", "-o", program, "."]);
  const lines = (await run("go", ["list", "-m", "-f", "{{.Path}} {{.Version}}", ...names])).trim().split("\n");
  return lines.map((line) => line.split(" ") as [string, string]);
}

/** Compiles the program; returns the version of every package, and the class path. */
async function installFromMaven(names: string[], set: VersionSet, folder: string, run: Installer) {
  const artifactOf = (name: string) => name.split(":")[1] as string;
  const versions = set === "pinned" ? names.filter((name) => pinned.maven[name] !== undefined) : [];
  const classes = join(folder, "classes");
  const list = join(folder, "class-path.txt");
  await run("mvn", [
    "--batch-mode",
    "--quiet",
    "--update-snapshots",
    ...versions.map((name) => `-D${artifactOf(name)}=${pinned.maven[name]}`),
    "dependency:build-classpath",
    `-Dmdep.outputFile=${list}`,
  ]);
  const jars = (await readFile(list, "utf8")).trim();
  const sources = (await readdir(folder)).filter((file) => file.endsWith(".java"));
  await run("javac", ["-nowarn", "-d", classes, "-cp", jars, ...sources]);
  const versionOf = (name: string): [string, string] => {
    const artifact = artifactOf(name);
    const jar = jars.split(":").find((path) => path.includes(`/${artifact}/`));
    return [name, jar?.split("/").at(-2) ?? "none"];
  };
  return { versions: names.map(versionOf), classPath: `${classes}:${jars}` };
}

export interface Installation extends Installed {
  /** Versions of every installed package. */
  versions: Record<Registry, Map<string, string>>;
  /** Why a client cannot be installed here. */
  missing: Map<Client, string>;
}

const firstLines = (error: unknown) => String(error instanceof Error ? error.message : error).slice(0, 500);

/** Clients that cannot be installed are listed in `missing`; the others are installed. */
export async function install(clients: Client[], set: VersionSet, signal: AbortSignal): Promise<Installation> {
  const folder = join(tmpdir(), "sluice-clients", set);
  const scripts = join(folder, "scripts");
  await mkdir(folder, { recursive: true });
  await rm(scripts, { recursive: true, force: true });
  for (const language of ["python", "javascript", "go", "java"])
    await cp(join(import.meta.dirname, language), join(scripts, language), { recursive: true });
  const installation: Installation = {
    binaries: join(folder, "node_modules", ".bin"),
    python: join(folder, "python", "bin", "python"),
    go: join(folder, "go-clients"),
    classPath: "",
    scripts,
    versions: { npm: new Map(), pypi: new Map(), go: new Map(), maven: new Map() },
    missing: new Map(),
  };
  const runIn = (cwd: string) => installerIn(cwd, signal);
  const installers: Record<Registry, (names: string[]) => Promise<[string, string][]>> = {
    npm: (names) => installFromNpm(names, set, folder, runIn(folder)),
    pypi: (names) => installFromPypi(names, set, installation.python, runIn(folder)),
    go: (names) => installFromGo(names, set, installation.go, runIn(join(scripts, "go"))),
    async maven(names) {
      const java = join(scripts, "java");
      const { versions, classPath } = await installFromMaven(names, set, java, runIn(java));
      installation.classPath = classPath;
      return versions;
    },
  };
  for (const registry of registries) {
    // Go and Java have one program for all clients.
    const isOneProgram = registry === "go" || registry === "maven";
    /**
     * One package may be what cannot be installed, so a part of the clients is tried without the
     * others.
     */
    const add = async (some: Client[]): Promise<void> => {
      if (some.length === 0) return;
      try {
        const versions = await installers[registry](packagesOf(some));
        for (const [name, version] of versions) installation.versions[registry].set(name, version);
      } catch (error) {
        signal.throwIfAborted();
        if (some.length === 1 || isOneProgram) {
          for (const client of some) installation.missing.set(client, firstLines(error));
          return;
        }
        const half = Math.ceil(some.length / 2);
        await add(some.slice(0, half));
        await add(some.slice(half));
      }
    };
    await add(clients.filter((client) => client.registry === registry));
  }
  return installation;
}
