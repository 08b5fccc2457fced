/** Signs the trials of operators. */
import { signTrial, trialHeader } from "#access/trial.ts";
import type { trialOperations } from "#api/trials.ts";
import { Fault } from "../api/faults.ts";
import type { Handlers } from "../api/handlers.ts";

/** `secret`: INTERNAL_SECRET. */
export const trialHandlers = (secret: string | undefined): Handlers<typeof trialOperations> => ({
  async createTrial({ body: { key, model, failing } }, { now }) {
    if (secret === undefined)
      throw new Fault("unavailable", "Set INTERNAL_SECRET of control and of the ingresses to try targets.");
    const trial = { key, model, failing: failing.map(({ upstream, target }) => `${upstream}/${target}`) };
    return { body: { header: trialHeader, value: signTrial(secret, trial, now.getTime()) } };
  },
});
