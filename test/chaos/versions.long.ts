/**
 * This checkout and an earlier one at one Redis and one database: every combination, and an upgrade
 * under load that is taken back. `SLUICE_RELEASE` names the earlier commit, such as the last
 * release; by default it is the first that had this test, which every version of protocol 1 works
 * with.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { earlierVersion, firstWith } from "../bench/release.ts";
import { catalogueOf, type Gateway, type Role, startGateway, startRole } from "../support/gateway.ts";
import { startPostgres } from "../support/postgres.ts";
import { RollingLoad, rollingModels } from "./rolling-load.ts";

const release = process.env.SLUICE_RELEASE ?? firstWith("test/chaos/versions.long.ts");
const earlier = earlierVersion(release === undefined ? {} : { release });
const skip = earlier.kind === "absent" ? earlier.reason : false;

type Version = "own" | "release";
const versions: Version[] = ["own", "release"];

const startEmpty = () =>
  startGateway({ processes: "all", catalogue: catalogueOf(rollingModels), ingresses: 0, workers: [] });

/** Starts roles of either version at the gateway's Redis. */
function startersOf(gateway: Gateway, resources: AsyncDisposableStack) {
  const environment = {
    REDIS_URL: gateway.redis.url,
    SLUICE_CATALOGUE: gateway.catalogueFile,
    SIMULATOR_URL: gateway.simulatorUrl,
    PORT: "0",
    DRAIN_NOTICE_MS: "3000",
  };
  const start = async (role: string, version: Version, args: string[], more: Record<string, string> = {}) => {
    const checkout = version === "release" && earlier.kind === "checkout" ? earlier.directory : undefined;
    const started = await startRole(role, args, { ...environment, ...more }, checkout);
    resources.defer(() => (started.hasEnded ? Promise.resolve() : started.kill()));
    return started;
  };
  return {
    ingress: (version: Version) => start("ingress", version, []),
    worker: (version: Version) => start("worker", version, ["--queues", "chat=32"]),
    control: (version: Version, url: string) =>
      start("control", version, [], {
        DATABASE_URL: url,
        CONTROL_PORT: "0",
        OPERATOR_TOKEN: "0123456789abcdef0123456789abcdef",
      }),
  };
}

for (const ingressVersion of versions)
  for (const workerVersion of versions)
    test(`an ingress of ${ingressVersion} version is answered by a worker of ${workerVersion} version`, {
      skip,
    }, async () => {
      await using gateway = await startEmpty();
      await using resources = new AsyncDisposableStack();
      const start = startersOf(gateway, resources);
      await start.worker(workerVersion);
      await using load = new RollingLoad(gateway, [await start.ingress(ingressVersion)]);
      await load.flow(40);
      await load[Symbol.asyncDispose]();
      assert.deepEqual(load.lost, []);
    });

test("an upgrade under load, and taking it back, lose no request", { skip }, async () => {
  await using gateway = await startEmpty();
  await using resources = new AsyncDisposableStack();
  const start = startersOf(gateway, resources);
  let workers = [await start.worker("release"), await start.worker("release")];
  let ingresses = [await start.ingress("release"), await start.ingress("release")];
  await using load = new RollingLoad(gateway, ingresses);
  await load.flow();
  const replace = async (version: Version) => {
    const earlierWorkers = workers;
    workers = [await start.worker(version), await start.worker(version)];
    const next: Role[] = [];
    for (const ingress of ingresses) {
      const added = await start.ingress(version);
      next.push(added);
      await load.add(added);
      assert.equal(await load.remove(ingress), 0, ingress.complaints());
    }
    ingresses = next;
    for (const worker of earlierWorkers) assert.equal(await worker.stop(), 0, worker.complaints());
    await load.flow();
  };
  await replace("own");
  await replace("release");
  await load[Symbol.asyncDispose]();
  assert.deepEqual(load.lost, []);
});

test("control of the last release starts with the tables of this checkout", { skip }, async () => {
  await using gateway = await startEmpty();
  await using server = await startPostgres();
  await using resources = new AsyncDisposableStack();
  const start = startersOf(gateway, resources);
  const url = await server.createDatabase();
  for (const version of ["release", "own", "release", "own"] as const) {
    const control = await start.control(version, url);
    assert.ok((await fetch(`${control.urls.operations}/readyz`)).ok);
    assert.equal(await control.stop(), 0, control.complaints());
  }
});
