/**
 * The limits of a caller, one row each. The catalogue's schema, key records, `sluice keys create`
 * and the Lua scripts are made from this table: a new limit is a new row, and the compiler then
 * asks for its message in apps/ingress/rate-limit-messages.ts.
 */
import Type from "typebox";
import { limitWaitMsDefault, limitWaitMsMax } from "./bounds.ts";

/**
 * The unit that a limit counts: requests or tokens of the last minute, generations that run now, or
 * money spent in a period. A new counter or period also needs its code in rate-limit-scripts.ts.
 */
export type Counter = "requests" | "tokens" | "generations" | "money";
/**
 * Calendar periods are in UTC, weeks begin on Monday, and `total` has no end. A generation counts
 * in the periods in which it was received.
 */
export type BudgetPeriod = "day" | "week" | "month" | "total";

interface LimitRow {
  counter: Counter;
  /** The period of a budget. */
  period?: BudgetPeriod;
  /** The command line's option, without its dashes. */
  option: string;
  /** Follows the value in `sluice keys list`. */
  unit: string;
  minimum: number;
  maximum: number;
  description: string;
}

const count = (maximum: number) => ({ minimum: 1, maximum });
const money = { counter: "money", minimum: 0, maximum: 1_000_000 } as const;

/** The order of the rows is the order of the limits in the scripts' arguments. */
const limitTable = {
  requestsPerMinute: {
    counter: "requests",
    option: "requests-per-minute",
    unit: " requests/min",
    ...count(1_000_000_000),
    description: "Requests in any minute.",
  },
  tokensPerMinute: {
    counter: "tokens",
    option: "tokens-per-minute",
    unit: " tokens/min",
    ...count(1_000_000_000_000),
    description: "Tokens in any minute, input and output together.",
  },
  generationsMax: {
    counter: "generations",
    option: "generations",
    unit: " at once",
    ...count(1_000_000),
    description: "Concurrent generations, over all ingresses.",
  },
  budgetPerDay: {
    ...money,
    period: "day",
    option: "budget-per-day",
    unit: "/day",
    description: "Budget for one day (UTC), in the catalogue's currency.",
  },
  budgetPerWeek: {
    ...money,
    period: "week",
    option: "budget-per-week",
    unit: "/week",
    description: "Budget for one week (from Monday, UTC), in the catalogue's currency.",
  },
  budgetPerMonth: {
    ...money,
    period: "month",
    option: "budget-per-month",
    unit: "/month",
    description: "Budget for one month (UTC), in the catalogue's currency.",
  },
  budgetTotal: {
    ...money,
    period: "total",
    option: "budget-total",
    unit: " in total",
    description: "Budget without a period, in the catalogue's currency.",
  },
} as const satisfies Record<string, LimitRow>;

export type LimitName = keyof typeof limitTable;
export type LimitOption = (typeof limitTable)[LimitName]["option"];

export const limitRows: readonly (LimitRow & { name: LimitName; option: LimitOption })[] = Object.entries(
  limitTable,
).map(([name, row]) => ({ name: name as LimitName, ...row }));

export const limitNames = Object.keys(limitTable) as LimitName[];
/** The owners of limits. */
export const limitScopes = ["key", "group", "account", "tag", "model"] as const;

/** Amounts of money have decimals, all other counts are integers. */
export const limitSchemaOf = ({ counter, minimum, maximum, description }: LimitRow) =>
  (counter === "money" ? Type.Number : Type.Integer)({ minimum, maximum, description });

/** The ways to treat a request over a limit other than a budget. */
export const limitExcesses = ["refuse", "wait"] as const;

/** How requests over these limits are treated. Budgets refuse them in any case. */
const excess = {
  onLimit: Type.Optional(
    Type.Enum(limitExcesses, {
      description:
        "A request over the requests or tokens per minute, or over the concurrent generations: `refuse` (the default) answers 429 at once, `wait` keeps it until its turn. Budgets never wait.",
    }),
  ),
  waitMs: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: limitWaitMsMax,
      description: `With \`onLimit: wait\`: how long a request waits at most, in milliseconds, before it gets the 429. Default: ${limitWaitMsDefault}.`,
    }),
  ),
};

/** The schema of a caller's limits. An absent limit does not apply. */
export const limitsSchema = (options: Type.TObjectOptions) =>
  Type.Object(
    {
      ...(Object.fromEntries(limitRows.map((row) => [row.name, Type.Optional(limitSchemaOf(row))])) as {
        [Name in LimitName]: Type.TOptional<Type.TNumber>;
      }),
      ...excess,
    },
    options,
  );

export type Limits = Readonly<Type.Static<ReturnType<typeof limitsSchema>>>;

/** A limit that is absent stays, and null removes it. */
export type LimitsChange = { readonly [Name in keyof Limits]: Limits[Name] | null };

/** The limits after a change; undefined if none is left. */
export function changedLimits(before: Limits | null, change: LimitsChange): Limits | undefined {
  const kept = Object.entries({ ...before, ...change }).filter(([, limit]) => limit !== null);
  return kept.length === 0 ? undefined : Object.fromEntries(kept);
}

export const hasLimit = (limits: Limits): boolean => limitNames.some((name) => limits[name] !== undefined);

/** How long a request over this limit may wait for its turn; undefined if it is refused at once. */
export function limitWaitMsOf({ onLimit, waitMs = limitWaitMsDefault }: Limits, limit: LimitName): number | undefined {
  return onLimit === "wait" && limitTable[limit].counter !== "money" ? waitMs : undefined;
}

/** Whether one of these limits uses the counter. */
export const limitsCount = (limits: Limits, counter: Counter): boolean =>
  limitRows.some((row) => row.counter === counter && limits[row.name] !== undefined);
