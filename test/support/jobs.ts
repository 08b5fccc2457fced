/** A generation as a test puts it on a queue. */
import type { GenerationJob } from "#relay/job.ts";

let numbers = 0;

export function jobOf(generation: string, attempt = 1): GenerationJob {
  return {
    generation,
    owner: "ingress-test",
    number: ++numbers,
    attempt,
    dialect: "openai-chat",
    operation: "answer",
    framing: "whole",
    contentType: "application/json",
    headers: {},
    model: "m",
    group: "default",
    keyId: "key_1",
    admittedAt: Date.now(),
    body: `{"secret":"${generation}"}`,
  };
}
