import { runGroup } from "../groups.ts";

runGroup("clients");
