import { runGroup } from "../groups.ts";

runGroup("ingress");
