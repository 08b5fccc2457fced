import { runGroup } from "../support/run-group.ts";

runGroup("browsers");
