/** Finds the control that a command calls. */
import type { ApiAddress } from "#api/client.ts";
import type { Environment } from "#catalogue/environment.ts";
import { readOperatorToken, readReady, stateOf } from "./state.ts";

/**
 * At SLUICE_CONTROL_URL, or of the gateway that runs in this directory. Undefined if neither has a
 * control and its token.
 */
export function controlOf({ SLUICE_CONTROL_URL, OPERATOR_TOKEN }: Environment): ApiAddress | undefined {
  const state = stateOf(process.cwd());
  const url = SLUICE_CONTROL_URL || readReady(state)?.controlUrl;
  const token = OPERATOR_TOKEN || (SLUICE_CONTROL_URL ? undefined : readOperatorToken(state));
  return url && token ? { url, token } : undefined;
}

export const noControl =
  'no gateway runs in this directory; start it with "npm start", or set SLUICE_CONTROL_URL and OPERATOR_TOKEN';
