import { runGroup } from "../groups.ts";

runGroup("ledger");
