import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { type Lock, missingBuildsOf } from "../../infra/complete-lock.ts";

test("package-lock.json describes the builds for every platform, without which npm ci refuses it; `npm run lock` completes it", () => {
  const lock = JSON.parse(readFileSync(new URL("../../package-lock.json", import.meta.url), "utf8")) as Lock;
  assert.deepEqual(Object.keys(missingBuildsOf(lock)), []);
});

test("a missing build is described by its name", () => {
  const optionalDependencies = {
    "@x/binding-linux-arm64-musl": "1.0.0",
    "@x/binding-darwin-x64": "1.0.0",
    "@x/binding-linux-arm-gnueabihf": "1.0.0",
  };
  assert.deepEqual(
    missingBuildsOf({
      packages: { "node_modules/x": { dev: true, optionalDependencies }, "node_modules/@x/binding-darwin-x64": {} },
    }),
    {
      "node_modules/@x/binding-linux-arm64-musl": {
        version: "1.0.0",
        cpu: ["arm64"],
        dev: true,
        libc: ["musl"],
        optional: true,
        os: ["linux"],
      },
      "node_modules/@x/binding-linux-arm-gnueabihf": {
        version: "1.0.0",
        cpu: ["arm"],
        dev: true,
        libc: ["glibc"],
        optional: true,
        os: ["linux"],
      },
    },
  );
});
