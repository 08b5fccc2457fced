import { runGroup } from "../groups.ts";

runGroup("control");
