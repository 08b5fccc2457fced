import { runGroup } from "../groups.ts";

runGroup("requests-3");
