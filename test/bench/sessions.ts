/**
 * Prints what session affinity saves: 20-turn sessions of an agent, two credentials, and three
 * workers of which one is killed halfway (docs/models-and-routing.md).
 */
import { playAgentSessions } from "../support/agent-sessions.ts";

const sessions = 50;
console.log("| affinity | cacheable tokens read from the cache | cost of the prompts |");
console.log("| --- | --- | --- |");
for (const affinity of ["session", "off"] as const) {
  const { readShare, promptCost } = await playAgentSessions(sessions, affinity, "workers");
  console.log(`| \`${affinity}\` | ${(readShare * 100).toFixed(1)} % | $${promptCost.toFixed(2)} |`);
}
