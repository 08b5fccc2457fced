/** Gateways of one section alone, which take turns as the compared systems do. */
import { postgres as program, programFor } from "../../apps/cli/test-programs.ts";
import { chatBodyOf } from "./load.ts";
import { type Bench, pause, unpause, warmUp } from "./rounds.ts";
import { type Sluice, type SluiceOptions, startSluice } from "./sluice.ts";
import { streamChunks, streamModel } from "./streams.ts";

export interface FreshCase {
  name: string;
  options: Partial<SluiceOptions>;
}

const hasPostgres = (): boolean => {
  try {
    programFor(program);
    return true;
  } catch {
    return false;
  }
};

/**
 * Starts a gateway for each case, warms it up and pauses it, and stops them all after `use`. Cases
 * with PostgreSQL are left out where it is not installed.
 */
export async function withFresh(
  bench: Bench,
  cases: readonly FreshCase[],
  use: (systems: Sluice[]) => Promise<void>,
): Promise<void> {
  const systems: Sluice[] = [];
  const streams = { body: chatBodyOf(streamModel, { stream: true }), chunks: streamChunks };
  try {
    for (const { name, options } of cases) {
      if (options.database === "postgres" && !hasPostgres()) {
        bench.tell(`${name}: PostgreSQL is not installed`);
        continue;
      }
      bench.tell(`starting ${name}`);
      const models = [bench.shortModel, streamModel];
      const upstreamUrl = bench.upstream.url;
      const system = await startSluice({ ingresses: 1, workers: 1, upstreamUrl, models, ...options, name });
      systems.push(system);
      await warmUp(system, bench, bench.shortModel, streams);
      if (!bench.quick) pause(system);
    }
    await use(systems);
  } finally {
    for (const system of systems) {
      unpause(system);
      await system.stop();
    }
  }
}
