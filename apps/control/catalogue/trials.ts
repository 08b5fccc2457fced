/** Signs the trials of operators. */
import { signTrial, trialHeader } from "#access/trial.ts";
import type { trialOperations } from "#api/trials.ts";
import { Fault } from "../api/faults.ts";
import type { Handlers } from "../api/handlers.ts";

/** `secret`: INTERNAL_SECRET. */
export const trialHandlers = (secret: string | undefined): Handlers<typeof trialOperations> => ({
  async createTrial({ body: { failing } }, { now }) {
    if (secret === undefined)
      throw new Fault("unavailable", "Set INTERNAL_SECRET of control and of the ingresses to try targets.");
    const targets = failing.map(({ upstream, target }) => `${upstream}/${target}`);
    return { body: { header: trialHeader, value: signTrial(secret, targets, now.getTime()) } };
  },
});
