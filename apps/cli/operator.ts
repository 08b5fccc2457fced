/** `sluice operator link`: a link that signs the first operator in once, from the control that runs in this directory or at SLUICE_CONTROL_URL. */
import { type ApiAddress, ApiFault, callOperation } from "#api/client.ts";
import type { Environment } from "#catalogue/environment.ts";
import { readOperatorToken, readReady, stateOf } from "./state.ts";

const usage = `Usage:
  sluice operator link    print a link that signs the first operator in once, within 15 minutes

It calls the control of the gateway that runs in this directory, or the one at SLUICE_CONTROL_URL with OPERATOR_TOKEN.
`;

/** Resolves to the exit code: 1 for a failed command, 2 for invalid arguments. Never rejects. */
export async function operatorCommand(args: string[], environment: Environment): Promise<number> {
  if (args.length !== 1 || args[0] !== "link") {
    process.stderr.write(usage);
    return 2;
  }
  const control = controlOf(environment);
  if (control === undefined) {
    process.stderr.write(
      'sluice operator: no gateway runs in this directory; start it with "npm start", or set SLUICE_CONTROL_URL and OPERATOR_TOKEN\n',
    );
    return 1;
  }
  try {
    const { url, email, expiresAt } = await callOperation(control, "createSignInLink", { body: {} });
    process.stdout.write(`${url}\n`);
    process.stderr.write(`It signs ${email} in once, before ${expiresAt}. Whoever has it is the operator.\n`);
    return 0;
  } catch (error) {
    const reason = error instanceof ApiFault ? error.message : `control at ${control.url} does not answer`;
    process.stderr.write(`sluice operator: ${reason}\n`);
    return 1;
  }
}

/** Undefined if neither the environment nor this directory has a control and its token. */
function controlOf({ SLUICE_CONTROL_URL, OPERATOR_TOKEN }: Environment): ApiAddress | undefined {
  const state = stateOf(process.cwd());
  const url = SLUICE_CONTROL_URL || readReady(state)?.controlUrl;
  const token = OPERATOR_TOKEN || (SLUICE_CONTROL_URL ? undefined : readOperatorToken(state));
  return url && token ? { url, token } : undefined;
}
