/**
 * `sluice operator link`: a link that signs the first operator in once, from the control that runs
 * in this directory or at SLUICE_CONTROL_URL.
 */
import { ApiFault, callOperation } from "#api/client.ts";
import type { Environment } from "#catalogue/environment.ts";
import { controlOf, noControl } from "./control-address.ts";

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
    process.stderr.write(`sluice operator: ${noControl}\n`);
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
