import assert from "node:assert/strict";
import { test } from "node:test";
import { profiles } from "#dialects/profiles.ts";

const cases: { caller: string; headers: Record<string, string>; getsIds: boolean }[] = [
  { caller: "a library that asks for nothing", headers: { "user-agent": "litellm/1.110.2" }, getsIds: false },
  { caller: "a caller that asks for a resumable stream", headers: { "x-sluice-resumable": "true" }, getsIds: true },
  { caller: "a caller that resumes a stream", headers: { "last-event-id": "gen_1.3" }, getsIds: true },
  {
    caller: "Google's library, also if it asks",
    headers: { "x-goog-api-client": "google-genai-sdk/3.1.0 gl-node/v24", "x-sluice-resumable": "true" },
    getsIds: false,
  },
];
for (const { caller, headers, getsIds } of cases)
  test(`Gemini events have ${getsIds ? "ids" : "no ids"} for ${caller}`, () => {
    assert.equal(profiles.gemini.rejectsEventIds?.(headers) !== true, getsIds);
  });
