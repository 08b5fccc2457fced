/**
 * infra/upgrade.sh on a stand-in for Docker that keeps a list of containers and writes it down
 * after each change.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { root } from "./compose.ts";

interface Container {
  id: string;
  service: string;
  version: string;
}
interface World {
  containers: Container[];
  images: string[];
  /** The version whose containers do not become healthy. */
  unhealthy?: string;
  history: Container[][];
}

const standIn = `#!${process.execPath}
const { readFileSync, writeFileSync } = require("node:fs");
const file = process.env.WORLD;
const world = JSON.parse(readFileSync(file, "utf8"));
const version = process.env.SLUICE_VERSION;
const args = process.argv.slice(2);
const command = args[0] === "compose" ? "compose " + args[1] : args[0];
const services = args.slice(2).filter((one, index, all) => !one.startsWith("--") && all[index - 1] !== "--scale");
let status = 0;
const changed = () => world.history.push(world.containers);
if (command === "image") status = world.images.includes(args[2].split(":")[1]) ? 0 : 1;
else if (command === "compose build") world.images.push(version);
else if (command === "compose config") console.log("valkey\\ningress\\nworker-chat\\nworker-image\\ncontrol\\nproxy");
else if (command === "compose ps") for (const { id, service } of world.containers) { if (service === args[3]) console.log(id); }
else if (command === "compose up") {
  for (const service of services) {
    const own = world.containers.filter((one) => one.service === service);
    const scale = args.includes("--scale") ? Number(args[args.indexOf("--scale") + 1].split("=")[1]) : own.length;
    const kept = args.includes("--no-recreate") ? own : own.filter((one) => one.version === version);
    const added = Array.from({ length: scale - kept.length }, (_, index) => ({ id: [service, version, index].join("-"), service, version }));
    world.containers = [...world.containers.filter((one) => one.service !== service), ...kept, ...added];
    changed();
  }
  if (world.unhealthy === version) status = 1;
} else if (command === "stop") { world.containers = world.containers.filter(({ id }) => !args.includes(id)); changed(); }
else if (!["rm", "compose exec"].includes(command)) throw new Error("unknown: " + args.join(" "));
writeFileSync(file, JSON.stringify(world));
process.exit(status);
`;

/** Runs the script in a world of containers with the first of these versions. */
function upgrade(
  world: Omit<World, "history">,
  version: string,
): { status: number | null; world: World; environment: string } {
  const directory = mkdtempSync(join(tmpdir(), "upgrade-"));
  try {
    mkdirSync(join(directory, "bin"));
    cpSync(`${root}infra/upgrade.sh`, join(directory, "infra/upgrade.sh"));
    writeFileSync(join(directory, "bin/docker"), standIn);
    chmodSync(join(directory, "bin/docker"), 0o755);
    writeFileSync(join(directory, ".env"), "SLUICE_VERSION=1\nOPENAI_API_KEY=a\n");
    writeFileSync(join(directory, "world"), JSON.stringify({ ...world, history: [] }));
    const env = { PATH: `${directory}/bin:${process.env.PATH}`, WORLD: join(directory, "world") };
    const { status, stderr } = spawnSync("sh", [join(directory, "infra/upgrade.sh"), version], {
      env,
      encoding: "utf8",
    });
    assert.doesNotMatch(stderr, /unknown|not found/);
    const textOf = (file: string) => readFileSync(join(directory, file), "utf8");
    return { status, world: JSON.parse(textOf("world")) as World, environment: textOf(".env") };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

const containersOf = (version: string): Container[] =>
  ["ingress", "ingress", "worker-chat", "worker-chat", "worker-image", "control", "simulator"].map(
    (service, index) => ({
      id: `${index}-of-${version}`,
      service,
      version,
    }),
  );
const versionsOf = (containers: Container[], service: string) =>
  new Set(containers.filter((one) => one.service === service).map(({ version }) => version));

for (const [from, to] of [
  ["1", "2"],
  ["2", "1"],
] as const)
  test(`from version ${from} to ${to}: an ingress of each, and workers of the versions of all ingresses, at every moment`, () => {
    const { status, world, environment } = upgrade({ containers: containersOf(from), images: ["1"] }, to);
    assert.equal(status, 0);
    assert.ok(world.history.length >= 6);
    for (const containers of world.history) {
      const ingresses = versionsOf(containers, "ingress");
      assert.ok(ingresses.size > 0);
      for (const worker of ["worker-chat", "worker-image"])
        for (const version of ingresses) assert.ok(versionsOf(containers, worker).has(version), `${worker} ${version}`);
    }
    const left = world.containers.map(({ service, version }) => `${service} ${version}`).sort();
    assert.deepEqual(
      left,
      containersOf(to)
        .map(({ service, version }) => `${service} ${version}`)
        .sort(),
    );
    assert.equal(environment, `SLUICE_VERSION=${to}\nOPENAI_API_KEY=a\n`);
  });

test("a version that does not become healthy replaces nothing", () => {
  const before = containersOf("1");
  const { status, world, environment } = upgrade({ containers: before, images: ["1"], unhealthy: "2" }, "2");
  assert.notEqual(status, 0);
  for (const container of before) assert.ok(world.containers.some(({ id }) => id === container.id));
  assert.match(environment, /^SLUICE_VERSION=1$/m);
});
