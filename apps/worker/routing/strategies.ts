/**
 * The strategies for equal targets: neighbours of a route with weights, which share its requests.
 * Pure.
 */

export interface MeasuredTarget {
  weight: number;
  /** Calls of all workers. */
  callsInFlight: number;
  /** Until the first content; undefined before one is known. */
  latencyMs: number | undefined;
  /** How much the latency counts, from 0 for one of long ago to 1. */
  latencyTrust: number;
  /** From 0 to 1: the part of its last calls that failed. */
  failedShare: number;
  /** The cost of the request in nano-units, with the part that its prompt cache should hold. */
  cost: bigint;
}

export type Strategy = "leastBusy" | "lowestLatency" | "cheapest";

/** A target all of whose last calls failed counts as so many times as busy, or as slow. */
const failedFactor = 10;
/** Latencies up to this factor are equal. */
const equalLatencies = 1.1;

/**
 * The targets in the order in which they are called. Among equal ones the weights decide.
 *
 * Workers hear of each other's calls after up to a second. So that they do not all choose the same
 * target meanwhile, each compares two that it draws by weight, and the better one is first.
 * `random` returns numbers from 0 to below 1.
 */
export function orderBy<Target extends MeasuredTarget>(
  strategy: Strategy,
  targets: readonly Target[],
  random: () => number,
): Target[] {
  const drawn = drawnByWeight(targets, random);
  if (strategy === "cheapest") return drawn.sort((one, other) => sign(one.cost - other.cost));
  const scoreOf = strategy === "leastBusy" ? busynessOf : latencyScores(targets);
  const scores = new Map(drawn.map((target) => [target, scoreOf(target)]));
  const ratio = strategy === "leastBusy" ? 1 : equalLatencies;
  const isBetter = (one: Target, other: Target) => (scores.get(one) as number) * ratio < (scores.get(other) as number);
  const [one, other, ...rest] = drawn;
  if (one === undefined || other === undefined) return drawn;
  const [better, worse] = isBetter(other, one) ? [other, one] : [one, other];
  const others = [worse, ...rest].sort((a, b) => (scores.get(a) as number) - (scores.get(b) as number));
  return [better, ...others];
}

const sign = (difference: bigint): number => (difference < 0n ? -1 : difference > 0n ? 1 : 0);

const failureFactorOf = ({ failedShare }: MeasuredTarget): number => 1 + (failedFactor - 1) * failedShare;

const busynessOf = (target: MeasuredTarget): number =>
  ((target.callsInFlight + (target.failedShare > 0 ? 1 : 0)) / target.weight) * failureFactorOf(target);

/**
 * A latency of long ago approaches the lowest one, and an unknown one is the lowest, so that every
 * target is tried now and then.
 */
function latencyScores(targets: readonly MeasuredTarget[]): (target: MeasuredTarget) => number {
  const lowest = Math.min(...targets.map(({ latencyMs = Number.POSITIVE_INFINITY }) => latencyMs));
  const least = Number.isFinite(lowest) ? Math.max(1, lowest) : 1;
  return (target) => {
    const { latencyMs = least, latencyTrust } = target;
    return (least + Math.max(0, latencyMs - least) * latencyTrust) * failureFactorOf(target);
  };
}

/** In a random order, in which heavier ones are likely to be earlier. */
export function drawnByWeight<Target extends { weight: number }>(
  targets: readonly Target[],
  random: () => number,
): Target[] {
  const left = [...targets];
  const ordered: Target[] = [];
  while (left.length > 0) {
    const point = random() * left.reduce((sum, { weight }) => sum + weight, 0);
    let passed = 0;
    const index = left.findIndex(({ weight }) => {
      passed += weight;
      return point < passed;
    });
    ordered.push(...left.splice(Math.max(0, index), 1));
  }
  return ordered;
}
