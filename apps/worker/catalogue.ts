/** Applies changes of the catalogue to the worker. */
import type { Logger } from "pino";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { credentialNamesOf, type Environment, secretOf } from "#catalogue/environment.ts";
import { catalogueLogOf } from "#catalogue/log.ts";
import type { CatalogueWatch, WatchListeners } from "#catalogue/watch.ts";
import type { Upstreams } from "./upstream/upstreams.ts";

interface CatalogueDeps {
  log: Logger;
  upstreams: Upstreams;
  watchCatalogue(listeners: WatchListeners): CatalogueWatch;
}

/** `environment` holds the credentials. The caller closes the watch. */
export function followCatalogue(
  { log, upstreams, watchCatalogue }: CatalogueDeps,
  environment: Environment,
): CatalogueWatch {
  const logged = catalogueLogOf(log);
  const catalogue = watchCatalogue({
    ...logged,
    onChange: (changed) => {
      logged.onChange(changed);
      upstreams.retain(changed.upstreams);
      warnOfCredentials(changed, environment, log);
    },
  });
  warnOfCredentials(catalogue.current(), environment, log);
  return catalogue;
}

function warnOfCredentials({ upstreams }: Catalogue, environment: Environment, log: Logger): void {
  for (const upstream of upstreams.values())
    for (const variable of credentialNamesOf(upstream))
      if (secretOf(variable, environment) === undefined)
        log.warn(
          { upstream: upstream.name, variable },
          "a credential of an upstream is not set; it is called without one",
        );
}
