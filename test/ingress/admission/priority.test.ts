import assert from "node:assert/strict";
import { test } from "node:test";
import type { PriorityName } from "#access/priority.ts";
import { Admission, type AdmissionOptions } from "../../../apps/ingress/admission/admission.ts";
import type { GenerationRequest } from "../../../apps/ingress/admission/generation-request.ts";
import { labelsOf } from "../../../apps/ingress/common/labels.ts";
import { Refusal } from "../../../apps/ingress/common/refusal.ts";
import { partOf } from "../../support/part-of.ts";

/** The priority of a request, by the setting of its group or key, its header and its body. */
function priorityOf(
  own: PriorityName | undefined,
  header?: string,
  { body, queue, key }: { body?: Record<string, unknown>; queue?: string; key?: PriorityName } = {},
) {
  const model = { id: "m", queue: "chat" };
  const admission = new Admission(
    partOf<AdmissionOptions>({
      catalogue: () => ({
        modelFor: () => model,
        queues: new Map(),
        groups: new Map(own === undefined ? [] : [["default", { priority: own, weight: 2, reservedPercent: 25 }]]),
      }),
      draining: new AbortController().signal,
    }),
  );
  const headers = header === undefined ? {} : { "x-sluice-priority": header };
  const admitted = admission.admit(
    partOf<GenerationRequest>({
      http: {
        caller: { id: "key_1", group: "default", ...(key && { priority: key }) },
        url: "/v1/chat/completions",
        headers,
      },
      requestId: "req_1",
      endpoint: { dialect: "openai-chat", operation: "answer" },
      model: "m",
      labels: labelsOf({}, headers, body),
      ...(queue !== undefined && { queue }),
    }),
    undefined,
  );
  return admitted instanceof Refusal ? admitted.failure.param : admitted.share.priority;
}

test("a request has the priority of its key or group, or the lower one that it asks for", () => {
  const [interactive, normal, background] = [0, 1, 2];
  const flex = { body: { service_tier: "flex" } };
  for (const [own, header, more, expected] of [
    [undefined, undefined, {}, normal],
    ["interactive", undefined, {}, interactive],
    ["interactive", "normal", {}, normal],
    ["interactive", "background", {}, background],
    ["normal", "interactive", {}, normal],
    ["normal", "background", {}, background],
    ["background", "interactive", {}, background],
    ["interactive", undefined, flex, background],
    ["interactive", "interactive", flex, background],
    ["normal", undefined, { body: { service_tier: "priority" } }, normal],
    ["normal", undefined, { body: { serviceTier: "flex" } }, background],
    ["normal", undefined, { body: { serviceTier: "SERVICE_TIER_FLEX" } }, background],
    ["normal", undefined, { body: { serviceTier: "standard" } }, normal],
    ["interactive", undefined, { queue: "background" }, background],
    ["interactive", undefined, { key: "background" }, background],
    ["background", undefined, { key: "interactive" }, interactive],
    ["interactive", "normal", { key: "background" }, background],
    [undefined, "background", { key: "interactive" }, background],
    ["normal", "urgent", {}, "x-sluice-priority"],
    ["normal", "", {}, "x-sluice-priority"],
  ] as const)
    assert.equal(priorityOf(own, header, more), expected, `${own} ${header} ${JSON.stringify(more)}`);
});
