import { runGroup } from "../groups.ts";

runGroup("libraries");
