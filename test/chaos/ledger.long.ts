/**
 * The ledger while processes, Redis and Postgres die: every answer is in it once, at the cost that
 * its caller saw.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { startControl } from "../support/control.ts";
import { catalogueOf, type Gateway, startGateway } from "../support/gateway.ts";
import { startPostgres } from "../support/postgres.ts";
import { until } from "../support/time.ts";
import { assertComplete, assertTotals, isUnconfirmed, recordsOf, startLoad } from "./ledger-support.ts";

const postgres = await startPostgres();
const directory = await mkdtemp(join(tmpdir(), "sluice-ledger-"));
after(async () => {
  await postgres[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const paced = "sim-text;tokens=400;rate=40;first=0";
const catalogue = catalogueOf([
  { id: "fast", model: "sim-text;rate=0;first=0" },
  { id: "paced", model: paced },
]);
const messages = [{ role: "user" as const, content: "Hello" }];

const start = (options = {}): Promise<Gateway> =>
  startGateway({ catalogue, isDurable: true, environment: { USAGE_DIRECTORY: directory }, ...options });

const environmentOf = async (gateway: Gateway): Promise<Record<string, string>> => ({
  REDIS_URL: gateway.redis.url,
  SLUICE_CATALOGUE: gateway.catalogueFile,
  SIMULATOR_URL: gateway.simulatorUrl,
  DATABASE_URL: await postgres.createDatabase(),
});

test("a killed ingress: the worker records what ran for its callers, without a cost, and each generation once", async () => {
  await using gateway = await start({ processes: "all", ingresses: 2 });
  await using control = await startControl(await environmentOf(gateway));
  const victim = gateway.ingresses[1];
  const streams = await Promise.all(
    Array.from({ length: 5 }, () =>
      gateway.post({ model: "paced", messages, stream: true }, { url: victim?.urls.api as string }),
    ),
  );
  for (const stream of streams) await stream.body?.getReader().read();
  using load = startLoad(gateway, 4, (client) => gateway.ingresses[client % 2]?.urls.api as string);
  await until("there was some load", () => load.costs.size > 100);
  await victim?.kill();
  await until("there was more load", () => load.costs.size > 200);
  await load.stop();
  await assertComplete(control, load.costs, { mayBeUnconfirmed: true });
  await until(
    "the streams of the killed ingress are in the ledger",
    async () => {
      // Control refuses calls that follow each other faster for so long.
      await delay(250);
      return (
        (await recordsOf(control)).filter((record) => record.model === "paced" && isUnconfirmed(record)).length === 5
      );
    },
    60_000,
  );
  await assertTotals(control, await recordsOf(control));
});

test("control stopped and started, Postgres killed, Redis killed: nothing is lost or counted twice", async () => {
  await using gateway = await start();
  const environment = await environmentOf(gateway);
  using load = startLoad(gateway, 6, () => gateway.url);
  const more = async (count: number) => {
    const goal = load.costs.size + count;
    await until("there was some load", () => load.costs.size >= goal, 60_000);
  };
  {
    await using _ = await startControl(environment);
    await more(200);
  }
  await more(300);
  await using control = await startControl(environment);
  await more(100);
  await postgres.kill();
  await more(300);
  await postgres.start();
  await more(100);
  await gateway.redis.restart();
  await more(300);
  gateway.redis.pause();
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  gateway.redis.resume();
  await more(200);
  await load.stop();
  await assertComplete(control, load.costs);
});
