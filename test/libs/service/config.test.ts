import assert from "node:assert/strict";
import { totalmem } from "node:os";
import { test } from "node:test";
import { memoryShare } from "#service/config.ts";
import { StartupFault } from "#service/startup.ts";
import { ingressConfigOf } from "../../../apps/ingress/common/config.ts";
import { queuesOf, workerConfigOf } from "../../../apps/worker/config.ts";

const mebibyte = 1 << 20;

test("memoryShare returns whole MiB, at least one, and at most its maximum", () => {
  const { value } = memoryShare(6, 2 ** 50);
  assert.ok(value <= totalmem() / 6 && value % mebibyte === 0, String(value));
  assert.deepEqual(memoryShare(6, 2 * mebibyte), { value: 2 * mebibyte, text: "1/6 of the memory, at most 2097152" });
  assert.equal(memoryShare(2 ** 30, 512 * mebibyte).value, mebibyte);
});

test("the bytes for bodies default to a share of the memory, and limit the size of one body", () => {
  const { bodiesBytesMax } = ingressConfigOf({});
  assert.ok(bodiesBytesMax <= totalmem() / 8 && bodiesBytesMax <= 512 * mebibyte, String(bodiesBytesMax));
  const { bodyBytesMax, ...others } = ingressConfigOf({ BODIES_BYTES_MAX: String(3 * mebibyte) });
  assert.equal(others.bodiesBytesMax, 3 * mebibyte);
  assert.equal(bodyBytesMax, Math.floor(0.7 * 3 * mebibyte));
  assert.equal(ingressConfigOf({ BODY_BYTES_MAX: "2048", BODIES_BYTES_MAX: String(3 * mebibyte) }).bodyBytesMax, 2048);
  assert.throws(() => ingressConfigOf({ BODIES_BYTES_MAX: "many" }), StartupFault);
});

test("a setting under its name from before 0.2.0 is refused with its new name", () => {
  for (const [act, message] of [
    [() => workerConfigOf({ SOURCE_NETWORKS: "10.0.0.0/8" }), "SOURCE_NETWORKS was renamed to ATTACHMENT_NETWORKS"],
    [() => workerConfigOf({ SOURCE_BYTES_MAX: "1048576" }), "SOURCE_BYTES_MAX was renamed to ATTACHMENT_BYTES_MAX"],
    [() => queuesOf(["--lanes", "chat=1"]), "--lanes was renamed to --queues"],
    [() => queuesOf(["--lanes=chat=1"]), "--lanes was renamed to --queues"],
  ] as const)
    assert.throws(act, new StartupFault(`${message} in version 0.2.0`));
});

test("trusted proxies are addresses and networks", () => {
  assert.deepEqual(ingressConfigOf({}).trustedProxies, []);
  assert.deepEqual(ingressConfigOf({ TRUSTED_PROXIES: "10.0.0.0/8, ::1" }).trustedProxies, ["10.0.0.0/8", "::1"]);
  assert.throws(
    () => ingressConfigOf({ TRUSTED_PROXIES: "loopback" }),
    (error) => error instanceof StartupFault && /^TRUSTED_PROXIES must be addresses and networks/.test(error.message),
  );
});
