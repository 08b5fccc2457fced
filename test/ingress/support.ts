/** An ingress inside the test's own process. */
import { type Logger, pino } from "pino";
import { Registry } from "prom-client";
import { watchCatalogue } from "#catalogue/watch.ts";
import type { IngressEvents } from "#events/ingress-events.ts";
import { relayBounds } from "#relay/bounds.ts";
import { systemClock } from "#service/clock.ts";
import { serviceConfigOf } from "#service/config.ts";
import { connectRedis } from "#service/redis.ts";
import { ingressConfigOf } from "../../apps/ingress/common/config.ts";
import { createIngress, type Ingress, type IngressDeps } from "../../apps/ingress/ingress.ts";
import type { Gateway } from "../support/gateway.ts";

export interface TestIngress extends AsyncDisposable {
  readonly ingress: Ingress;
  readonly api: string;
  readonly operations: string;
  /** The events so far, by kind and in order. */
  readonly events: { kind: keyof IngressEvents; event: IngressEvents[keyof IngressEvents] }[];
  /** The lines of its log. */
  readonly lines: Record<string, unknown>[];
}

const kinds = [
  "received",
  "admitted",
  "queued",
  "dispatched",
  "bound",
  "answering",
  "firstContent",
  "chunk",
  "restarted",
  "ended",
  "requestEnded",
  "requestRefused",
  "limitReached",
  "socketClosed",
  "fault",
] as const satisfies (keyof IngressEvents)[];

export const environmentOf = ({ redis, catalogueFile, simulatorUrl }: Gateway): Record<string, string> => ({
  REDIS_URL: redis.url,
  SLUICE_CATALOGUE: catalogueFile,
  SIMULATOR_URL: simulatorUrl,
  PORT: "0",
});

/** Creates an ingress from settings as in an environment. */
export function createTestIngress(
  environment: Record<string, string>,
  log: Logger,
  more: Partial<IngressDeps> = {},
): Promise<Ingress> {
  const config = { ...serviceConfigOf(environment), ...ingressConfigOf(environment) };
  return createIngress(config, {
    log,
    clock: systemClock,
    bounds: relayBounds,
    registry: new Registry(),
    report: () => undefined,
    connectRedis: (purpose) => connectRedis(config.redisUrl, purpose),
    watchCatalogue: (listeners) => watchCatalogue(config.catalogueFile, environment, listeners),
    ...more,
  });
}

/** Creates an ingress that listens. Dispose of it to close it. */
export async function startTestIngress(environment: Record<string, string>): Promise<TestIngress> {
  const events: TestIngress["events"] = [];
  const lines: Record<string, unknown>[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const recorder = Object.fromEntries(
    kinds.map((kind) => [kind, (event: IngressEvents[keyof IngressEvents]) => void events.push({ kind, event })]),
  );
  const ingress = await createTestIngress(environment, log, { subscribers: [recorder] });
  const { api, operations } = await ingress.listen();
  return { ingress, api, operations, events, lines, [Symbol.asyncDispose]: () => ingress.close() };
}
