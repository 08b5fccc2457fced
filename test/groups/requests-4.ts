import { runGroup } from "../support/run-group.ts";

runGroup("requests-4");
