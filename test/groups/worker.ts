import { runGroup } from "../groups.ts";

runGroup("worker");
