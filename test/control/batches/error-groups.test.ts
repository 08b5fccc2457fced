/** The failed requests of a batch by code, for the results of each API. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { errorGroupsOf } from "../../../apps/control/batches/error-groups.ts";
import type { BatchDialect } from "../../../apps/control/batches/formats.ts";

async function* inPieces(lines: readonly unknown[]): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  for (let at = 0; at < bytes.length; at += 7) yield bytes.subarray(at, at + 7);
}

const openai = (custom_id: string, status_code: number, error: object) => ({
  custom_id,
  response: { status_code, body: { error } },
  error: null,
});
const anthropic = (custom_id: string, result: object) => ({ custom_id, result });

const cases: Record<BatchDialect, [line: unknown, code: string | undefined][]> = {
  openai: [
    [openai("a", 200, {}), undefined],
    [openai("b", 400, { type: "invalid_request_error", code: null, message: "wrong" }), "invalid_request_error"],
    [openai("c", 429, { type: "tokens", code: "rate_limit_exceeded", message: "slow" }), "rate_limit_exceeded"],
    [openai("d", 502, {}), "502"],
    [{ custom_id: "e", response: null, error: { code: "batch_expired", message: "late" } }, "batch_expired"],
  ],
  anthropic: [
    [anthropic("a", { type: "succeeded", message: {} }), undefined],
    [
      anthropic("b", { type: "errored", error: { type: "error", error: { type: "api_error", message: "no" } } }),
      "api_error",
    ],
    [anthropic("c", { type: "canceled" }), "batch_cancelled"],
    [anthropic("d", { type: "expired" }), "batch_expired"],
  ],
  gemini: [
    [{ key: "a", response: {} }, undefined],
    [{ key: "b", error: { code: 3, status: "INVALID_ARGUMENT", message: "wrong" } }, "INVALID_ARGUMENT"],
  ],
};

for (const [dialect, lines] of Object.entries(cases))
  test(`results of ${dialect}: successes have no error, the others their code`, async () => {
    for (const [line, code] of lines) {
      const { groups } = await errorGroupsOf(dialect as BatchDialect, inPieces([line]));
      assert.deepEqual(
        groups.map((group) => group.code),
        code === undefined ? [] : [code],
      );
    }
  });

test("the most frequent code is first, with its first lines", async () => {
  const many = Array.from({ length: 9 }, (_, n) => openai(`m-${n}`, 400, { code: "many", message: `m ${n}` }));
  const lines = [openai("one", 400, { code: "few", message: "f" }), ...many];
  const { groups, isCut } = await errorGroupsOf("openai", inPieces(lines));
  assert.deepEqual(
    groups.map(({ code, count, lines: shown }) => [code, count, shown.length, shown[0]?.customId]),
    [
      ["many", 9, 5, "m-0"],
      ["few", 1, 1, "one"],
    ],
  );
  assert.equal(isCut, false);
});

test("codes of any number and length take bounded space", async () => {
  const lines = Array.from({ length: 80 }, (_, n) =>
    openai(`r-${n}`, 400, { code: `${n} ${"x".repeat(300)}`, message: "m".repeat(5_000) }),
  );
  const { groups } = await errorGroupsOf("openai", inPieces(lines));
  assert.equal(groups.length, 51);
  assert.equal(groups[0]?.code, "others");
  assert.equal(groups[0]?.count, 30);
  for (const { code, lines: shown } of groups)
    assert.ok(code.length <= 100 && shown.every(({ message }) => message.length <= 500));
});
