/** Sessions of agents find their prompts in the vendor's cache, also when a worker is lost. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { playAgentSessions } from "../support/agent-sessions.ts";

test("at least 95 % of the cacheable tokens are read, for far less than without affinity", async () => {
  const kept = await playAgentSessions(8, "session");
  const anew = await playAgentSessions(8, "off");
  assert.ok(kept.readShare >= 0.95, `${kept.readShare}`);
  assert.ok(anew.readShare < kept.readShare, `${anew.readShare}`);
  assert.ok(kept.promptCost < 0.85 * anew.promptCost, `${kept.promptCost} beside ${anew.promptCost} dollars`);
});
