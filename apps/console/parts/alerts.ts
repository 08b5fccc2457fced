/** Alerts of the last week. */
import { useRead } from "../app/queries.ts";

const everyMs = 15_000;
const weekMs = 604_800_000;
/** More are not counted. */
const alertsMax = 100;

export const useRecentAlerts = (options: { enabled?: boolean } = {}) =>
  useRead("listAlerts", { query: { limit: alertsMax } }, { everyMs, ...options }).data?.items.filter(
    ({ at }) => Date.parse(at) > Date.now() - weekMs,
  ) ?? [];
