/** Installs the newest version of the clients' packages in a folder beside the project, which is kept for the next run. */
import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Client, type Installed, runProgram } from "./client.ts";

const timeoutMs = 600_000;
const folder = join(tmpdir(), "sluice-agents");
const python = join(folder, "python", "bin", "python");

const packagesOf = (clients: Client[], registry: Client["registry"]) => [
  ...new Set(clients.filter((client) => client.registry === registry).flatMap(({ packages }) => packages)),
];

/** Throws with what the installer said. `versions` has every package by its name. */
export async function install(
  clients: Client[],
  signal: AbortSignal,
): Promise<{ installed: Installed; versions: Map<string, string> }> {
  const installer = async (file: string, args: string[]) => {
    const { code, stdout, output } = await runProgram(file, args, {
      cwd: folder,
      environment: process.env,
      timeoutMs,
      signal,
    }).catch((error) => {
      throw error.code === "ENOENT" ? new Error(`${file} is not installed, and these clients need it`) : error;
    });
    if (code !== 0) throw new Error(`${file} ${args.join(" ")} ended with ${code}: ${output}`);
    return stdout;
  };
  const versions = new Map<string, string>();
  await mkdir(folder, { recursive: true });

  const fromNpm = packagesOf(clients, "npm");
  if (fromNpm.length > 0) {
    await writeFile(join(folder, "package.json"), '{"private":true,"type":"module"}');
    await installer("npm", ["install", "--no-audit", "--no-fund", ...fromNpm.map((name) => `${name}@latest`)]);
    for (const name of fromNpm) {
      const { version } = JSON.parse(await readFile(join(folder, "node_modules", name, "package.json"), "utf8")) as {
        version: string;
      };
      versions.set(name, version);
    }
  }

  const fromPypi = packagesOf(clients, "pypi");
  if (fromPypi.length > 0) {
    await installer("python3", ["-m", "venv", join(folder, "python")]);
    await installer(python, ["-m", "pip", "install", "--quiet", "--no-input", "--upgrade", ...fromPypi]);
    const program =
      "import importlib.metadata, json, sys; print(json.dumps([importlib.metadata.version(name) for name in sys.argv[1:]]))";
    const found = JSON.parse(await installer(python, ["-c", program, ...fromPypi])) as string[];
    for (const [index, name] of fromPypi.entries()) versions.set(name, found[index] as string);
  }

  const scripts = join(folder, "scripts");
  await rm(scripts, { recursive: true, force: true });
  for (const language of ["python", "javascript"])
    await cp(join(import.meta.dirname, language), join(scripts, language), { recursive: true });
  return { installed: { binaries: join(folder, "node_modules", ".bin"), python, scripts }, versions };
}
