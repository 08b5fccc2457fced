/** Metrics whose value is read when they are scraped, and those that every process has. */
import { Counter, Gauge, type Registry } from "prom-client";
import { protocols } from "./protocol.ts";
import { build } from "./version.ts";

/** Registers metrics without labels. A gauge whose `read` rejects is NaN. */
export function readMetrics(registry: Registry) {
  const registers = [registry];
  return {
    gauge: (name: string, help: string, read: () => number | Promise<number>) =>
      new Gauge({
        name,
        help,
        registers,
        async collect() {
          this.set(await Promise.resolve(read()).catch(() => Number.NaN));
        },
      }),
    /** `read` returns the total since the process started. */
    counter: (name: string, help: string, read: () => number) =>
      new Counter({
        name,
        help,
        registers,
        collect() {
          this.reset();
          this.inc(read());
        },
      }),
  };
}

/** Why a process that finishes its work before it ends is not ready. */
export const stopping = "stopping";

export interface ProcessFacts {
  role: "ingress" | "worker" | "control";
  /** Why the process accepts no work, in a few words; undefined when it is ready. */
  notReady(): string | undefined;
}

/** Registers what every process says of itself. */
export function registerProcessMetrics(registry: Registry, { role, notReady }: ProcessFacts): void {
  const registers = [registry];
  new Gauge({
    name: "sluice_process_info",
    help: "1, with the role of the process, its version and commit, and the protocol that it writes.",
    labelNames: ["role", "version", "protocol"],
    registers,
  }).set({ role, version: build, protocol: protocols.current }, 1);
  new Gauge({
    name: "sluice_ready",
    help: "1 while the process is ready, as /readyz says; 0 while it is not.",
    labelNames: ["role"],
    registers,
    collect() {
      this.set({ role }, notReady() === undefined ? 1 : 0);
    },
  });
  new Gauge({
    name: "sluice_draining",
    help: "1 while the process takes no new work, finishes what it has and then ends.",
    labelNames: ["role"],
    registers,
    collect() {
      this.set({ role }, notReady() === stopping ? 1 : 0);
    },
  });
}
