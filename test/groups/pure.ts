import { runGroup } from "../groups.ts";

runGroup("pure");
