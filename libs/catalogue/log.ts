/** The log lines about the catalogue, the same in every process. */
import type { Logger } from "pino";
import type { WatchListeners } from "./watch.ts";

export const catalogueLogOf = (log: Logger): WatchListeners => ({
  onChange: ({ version }) => log.info({ version }, "catalogue changed"),
  onFault(fault) {
    if (fault === undefined) log.info("catalogue good again");
    else log.error({ fault }, "catalogue refused; the last good one stays");
  },
});
