/**
 * `sluice operator link`: a link that signs the first operator in once, from the control that runs
 * in this directory or at SLUICE_CONTROL_URL.
 */
import type { Environment } from "#catalogue/environment.ts";
import { exitCodeOf, standardOutput } from "./command.ts";
import { callControl, controlOf } from "./control-address.ts";

const usage = `Usage:
  sluice operator link    print a link that signs the first operator in once, within 15 minutes

It calls the control of the gateway that runs in this directory, or the one at SLUICE_CONTROL_URL with OPERATOR_TOKEN.
`;

/** Resolves to the exit code: 1 for a failed command, 2 for invalid arguments. */
export async function operatorCommand(args: string[], environment: Environment): Promise<number> {
  const { out, err } = standardOutput;
  if (args.length !== 1 || args[0] !== "link") {
    err(usage);
    return 2;
  }
  try {
    const { url, email, expiresAt } = await callControl(controlOf(environment), "createSignInLink", { body: {} });
    out(`${url}\n`);
    err(`It signs ${email} in once, before ${expiresAt}. Whoever has it is the operator.\n`);
    return 0;
  } catch (error) {
    return exitCodeOf("sluice operator", error, { err });
  }
}
