/** The catalogue of a process, and the log lines about it, the same in every process. */
import type { Logger } from "pino";
import { warnOfMisspelledVariables } from "#service/misspelled-variables.ts";
import { checkedAtStart } from "#service/startup.ts";
import type { Environment } from "./environment.ts";
import { type CatalogueWatch, type WatchListeners, watchCatalogue } from "./watch.ts";

export const catalogueLogOf = (log: Logger): WatchListeners => ({
  onChange: ({ version }) => log.info({ version }, "catalogue changed"),
  onFault(fault) {
    if (fault === undefined) log.info("catalogue good again");
    else log.error({ fault }, "catalogue refused; the last good one stays");
  },
});

/** The part of a process's status about its catalogue. */
export const catalogueStatusOf = (watch: CatalogueWatch) => {
  const fault = watch.fault();
  return {
    catalogue: watch.current().version,
    catalogueRevision: watch.revision(),
    ...(fault !== undefined && { catalogueFault: fault }),
  };
};

/**
 * Watches the catalogue from the start of a process, whose environment it also looks through.
 * Throws StartupFault.
 */
export function openCatalogue(
  file: string,
  environment: Environment,
  log: Logger,
): (listeners: WatchListeners) => CatalogueWatch {
  return (listeners) => {
    const watch = checkedAtStart(() => watchCatalogue(file, environment, listeners));
    warnOfMisspelledVariables(log, environment, watch.current());
    return watch;
  };
}
