/** Finds the control that a command calls, and calls it. */
import { type ApiAddress, callOperation, readOperation } from "#api/client.ts";
import { ApiFault } from "#api/request.ts";
import type { Environment } from "#catalogue/environment.ts";
import { noCredentials, plainAddress } from "#service/config.ts";
import { withSecrets } from "#service/secret-files.ts";
import { CommandFault } from "./command.ts";
import { readOperatorToken, readReady, stateOf } from "./state.ts";

/**
 * The control at SLUICE_CONTROL_URL, or of the gateway that runs in this directory; undefined
 * without one. Throws a CommandFault for one that cannot be called, which does not show its
 * address.
 */
export function presentControlOf(environment: Environment): ApiAddress | undefined {
  const { SLUICE_CONTROL_URL, OPERATOR_TOKEN } = withSecrets(environment, "OPERATOR_TOKEN");
  const state = stateOf(process.cwd());
  const url = SLUICE_CONTROL_URL || readReady(state)?.controlUrl;
  if (!url) return undefined;
  if (!plainAddress(/^https?:\/\//).test(url))
    throw new CommandFault(`SLUICE_CONTROL_URL must be http:// or https:// and a host, ${noCredentials}`);
  const token = OPERATOR_TOKEN || (SLUICE_CONTROL_URL ? undefined : readOperatorToken(state));
  if (token) return { url, token };
  throw new CommandFault(`OPERATOR_TOKEN must be set to call control at ${url}`);
}

/** The same. Throws a CommandFault without a control. */
export function controlOf(environment: Environment): ApiAddress {
  const control = presentControlOf(environment);
  if (control !== undefined) return control;
  throw new CommandFault(
    'no gateway runs in this directory; start it with "npm start", or set SLUICE_CONTROL_URL and OPERATOR_TOKEN',
  );
}

const reaching = <Call extends (control: ApiAddress, ...rest: never[]) => Promise<unknown>>(call: Call): Call =>
  ((control: ApiAddress, ...rest: never[]) =>
    call(control, ...rest).catch((error: unknown) => {
      throw error instanceof ApiFault ? error : new CommandFault(`control at ${control.url} does not answer`);
    })) as Call;

/** Rejects with an ApiFault, or with a CommandFault for a control that does not answer. */
export const callControl = reaching(callOperation);

/** The same for an operation whose answer is a stream. */
export const readControl = reaching(readOperation);
