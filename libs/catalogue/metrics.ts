/** Which catalogue a process runs, in numbers, the same in every process: where they differ between processes, something is amiss. */
import { Gauge, type Registry } from "prom-client";
import type { CatalogueWatch } from "./watch.ts";

/** Registers gauges that read the watch when they are scraped. */
export function registerCatalogueMetrics(registry: Registry, catalogue: CatalogueWatch): void {
  const registers = [registry];
  new Gauge({
    name: "sluice_catalogue_info",
    help: "1, with the version of the catalogue in force.",
    labelNames: ["version"],
    registers,
    collect() {
      this.reset();
      this.set({ version: catalogue.current().version }, 1);
    },
  });
  new Gauge({
    name: "sluice_catalogue_refused",
    help: "1 while the file as it is now is refused, and an earlier one is in force.",
    registers,
    collect() {
      this.set(catalogue.fault() === undefined ? 0 : 1);
    },
  });
}
