/** Installs packages in a folder beside the project, which is kept for the next run. */
import { existsSync } from "node:fs";
import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Client, type Installed, runProgram } from "./client.ts";
import { pinned } from "./pinned.ts";

const timeoutMs = 600_000;

/** `pinned`: the versions of `pinned.ts`; a package that it does not name is installed in its newest version. */
export type VersionSet = "newest" | "pinned";

const packagesOf = (clients: Client[], registry: Client["registry"]) => [
  ...new Set(clients.filter((client) => client.registry === registry).flatMap(({ packages }) => packages)),
];

type Installer = (file: string, args: string[]) => Promise<string>;

function installerIn(cwd: string, signal: AbortSignal): Installer {
  return async (file, args) => {
    const options = { cwd, environment: process.env, timeoutMs, signal };
    const { code, stdout, output } = await runProgram(file, args, options).catch((error) => {
      throw error.code === "ENOENT" ? new Error(`${file} is not installed, and these clients need it`) : error;
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
  const found = JSON.parse(await run(python, ["-c", program, ...names])) as string[];
  return names.map((name, index): [string, string] => [name, found[index] as string]);
}

export interface Installation extends Installed {
  /** Of every package. */
  versions: Record<Client["registry"], Map<string, string>>;
}

/** Throws with the installer's output. */
export async function install(clients: Client[], set: VersionSet, signal: AbortSignal): Promise<Installation> {
  const folder = join(tmpdir(), "sluice-clients", set);
  const python = join(folder, "python", "bin", "python");
  const scripts = join(folder, "scripts");
  await mkdir(folder, { recursive: true });
  const run = installerIn(folder, signal);
  const fromNpm = packagesOf(clients, "npm");
  const fromPypi = packagesOf(clients, "pypi");
  const npm = fromNpm.length > 0 ? await installFromNpm(fromNpm, set, folder, run) : [];
  const pypi = fromPypi.length > 0 ? await installFromPypi(fromPypi, set, python, run) : [];
  await rm(scripts, { recursive: true, force: true });
  for (const language of ["python", "javascript"])
    await cp(join(import.meta.dirname, language), join(scripts, language), { recursive: true });
  const versions = { npm: new Map(npm), pypi: new Map(pypi) };
  return { binaries: join(folder, "node_modules", ".bin"), python, scripts, versions };
}
