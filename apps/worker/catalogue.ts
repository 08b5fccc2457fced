/** Applies changes of the catalogue to the worker. */
import type { Logger } from "pino";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { credentialNamesOf, type Environment, secretOf } from "#catalogue/environment.ts";
import { catalogueLogOf } from "#catalogue/log.ts";
import type { CatalogueWatch, WatchListeners } from "#catalogue/watch.ts";
import type { SecretFiles } from "#service/secret-files.ts";
import type { Upstreams } from "./upstream/upstreams.ts";

interface CatalogueDeps {
  log: Logger;
  upstreams: Upstreams;
  /** Its environment holds the credentials. */
  secrets: SecretFiles;
  watchCatalogue(listeners: WatchListeners): CatalogueWatch;
}

/**
 * `onCredential` gets the name of each credential whose file has changed. The caller closes the
 * watch and the secrets.
 */
export function followCatalogue(
  { log, upstreams, secrets, watchCatalogue }: CatalogueDeps,
  onCredential: (credential: string) => void,
): CatalogueWatch {
  const logged = catalogueLogOf(log);
  const followCredentials = ({ upstreams: offered }: Catalogue) => {
    secrets.followOnly(new Set([...offered.values()].flatMap(credentialNamesOf)), log, onCredential);
    warnOfCredentials(offered, secrets.environment, log);
  };
  const catalogue = watchCatalogue({
    ...logged,
    onChange: (changed) => {
      logged.onChange(changed);
      upstreams.retain(changed.upstreams);
      followCredentials(changed);
    },
  });
  followCredentials(catalogue.current());
  return catalogue;
}

function warnOfCredentials(upstreams: Catalogue["upstreams"], environment: Environment, log: Logger): void {
  for (const upstream of upstreams.values())
    for (const variable of credentialNamesOf(upstream))
      if (secretOf(variable, environment) === undefined)
        log.warn(
          { upstream: upstream.name, variable },
          "a credential of an upstream is not set; it is called without one",
        );
}
