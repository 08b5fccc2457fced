import { runGroup } from "../groups.ts";

runGroup("media");
