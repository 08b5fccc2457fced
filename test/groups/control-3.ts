import { runGroup } from "../support/run-group.ts";

runGroup("control-3");
