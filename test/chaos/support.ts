/** The shared part of the tests of dying and frozen processes. */
import { catalogueOf, type Gateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";

/** The simulator model of each model in `catalogue`. */
export const models = {
  fast: "sim-text;rate=0;first=0;tokens=8",
  late: "sim-text;rate=0;first=3000;tokens=8",
  stream: "sim-text;rate=10;first=0;tokens=400",
  endless: "sim-text;rate=10;first=0;tokens=4000",
  silent: "sim-text;rate=0;first=600000;tokens=8",
};
export const catalogue = catalogueOf(Object.entries(models).map(([id, model]) => ({ id, model })));
export const ask = (gateway: Gateway, model: string, stream = false, signal?: AbortSignal) =>
  gateway.post({ model, stream, messages: [{ role: "user", content: "hello" }] }, signal && { signal });

/** Waits until the upstream received `count` requests. */
export async function seenRunning(gateway: Gateway, model: keyof typeof models, count = 1): Promise<void> {
  await until(`${model} runs`, async () => (await gateway.seen(models[model])).length >= count, 30_000);
}
