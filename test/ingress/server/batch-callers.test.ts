import assert from "node:assert/strict";
import { test } from "node:test";
import type { FastifyRequest } from "fastify";
import { internalSignatureHeader, signInternal } from "#access/internal-signature.ts";
import { RedisUnavailable } from "../../../apps/ingress/common/failures.ts";
import type { KeyDirectory } from "../../../apps/ingress/server/authentication.ts";
import { BatchCallers } from "../../../apps/ingress/server/batch-callers.ts";
import { partOf } from "../../support/part-of.ts";

const line = { method: "POST", url: "/v1/chat/completions" };
const claims = { batch: "batch_1", key: "hash", receivedAt: "1", sends: "0" };

const identified = (look: () => Promise<undefined>) => {
  const signature = signInternal("secret", { receiver: "ingress", ...line }, claims, 0);
  const headers = { [internalSignatureHeader]: signature };
  const request = partOf<FastifyRequest>({ ...line, originalUrl: line.url, headers });
  return new BatchCallers("secret", partOf<KeyDirectory>({ find: () => undefined, look })).identify(request, 0);
};

test("a line of a key that is gone is refused, and one whose key Redis does not give is sent again", async () => {
  assert.equal(await identified(async () => undefined), false);
  await assert.rejects(
    identified(() => Promise.reject(new Error("Command timed out"))),
    RedisUnavailable,
  );
});
