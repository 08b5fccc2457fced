/** Metrics of the catalogue in force. All processes should report the same version. */
import { Gauge, type Registry } from "prom-client";
import type { CatalogueWatch } from "./watch.ts";

/** Registers gauges that read the watch on every scrape. */
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
    help: "1 while the current file is invalid and an earlier version is in force.",
    registers,
    collect() {
      this.set(catalogue.fault() === undefined ? 0 : 1);
    },
  });
}
