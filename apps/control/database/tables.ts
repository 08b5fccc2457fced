/** The tables of control, as Kysely knows them. */
import type { Dimension, Measure, UsageRow } from "../ledger/columns.ts";

type UsageTotalsRow = { half_hour: Date } & Record<Dimension, string> & Record<Measure, bigint>;

export interface Tables {
  usage: UsageRow;
  usage_totals: UsageTotalsRow;
}
