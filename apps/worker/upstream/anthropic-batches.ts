/** Anthropic's message batches: https://docs.claude.com/en/api/creating-message-batches */
import { createHash } from "node:crypto";
import { listOf, objectOf, parsedObject } from "#wire/json/parse.ts";
import { memberSpanOf } from "#wire/json/spans.ts";
import { linesOf } from "#wire/lines.ts";
import { vendorAnswerBytesMax, vendorPagesMax, vendorSubmitSpanMs } from "../bounds.ts";
import {
  idIn,
  placeIn,
  type VendorAnswerLine,
  type VendorBatchApi,
  type VendorCalls,
  VendorUnclear,
} from "./vendor-calls.ts";

const batchesPath = "/messages/batches";
const pageSize = 100;

/** The vendor keeps no name of a batch, so the ids of its requests begin with a hash of it. */
const idOf = (name: string, place: number | string): string =>
  `${createHash("sha256").update(name).digest("hex").slice(0, 40)}-${place}`;

const pathOf = (id: unknown): string => `${batchesPath}/${encodeURIComponent(String(id))}`;

export const anthropicBatches: VendorBatchApi = {
  takes: ({ path }) => path === "/messages",

  async submit(calls, { name, requests }) {
    const parts = [...requests].flatMap(([place, body], index) => [
      Buffer.from(`${index === 0 ? "" : ","}{"custom_id":"${idOf(name, place)}","params":`),
      body,
      Buffer.from("}"),
    ]);
    const body = Buffer.concat([Buffer.from('{"requests":['), ...parts, Buffer.from("]}")]);
    return idIn(await calls.call({ method: "POST", path: batchesPath, body }));
  },

  /** Only the results of a batch tell its name. */
  async find(calls, name, submittedAt) {
    let isUnclear = false;
    for await (const { id, created_at: createdAt, processing_status: status } of batchesOf(calls)) {
      const sinceMs = Date.parse(String(createdAt)) - submittedAt;
      if (sinceMs < -vendorSubmitSpanMs) break;
      if (sinceMs > vendorSubmitSpanMs) continue;
      if (status !== "ended") isUnclear = true;
      else if (await hasName(calls, id, name)) return String(id);
    }
    if (isUnclear) throw new VendorUnclear();
    return undefined;
  },

  async stateOf(calls, id, cancels) {
    const { processing_status: status } = await calls.call({ method: "GET", path: pathOf(id) });
    if (status === "ended") return { isRunning: false };
    if (cancels && status !== "canceling") await calls.call({ method: "POST", path: `${pathOf(id)}/cancel` });
    return { isRunning: true };
  },

  readAnswers: (calls, id, take) =>
    calls.read({ method: "GET", path: `${pathOf(id)}/results` }, async (body) => {
      for await (const { bytes } of linesOf(body, vendorAnswerBytesMax)) {
        const answer = bytes && answerIn(bytes);
        if (answer !== undefined && !(await take(answer))) return;
      }
    }),

  async delete(calls, id) {
    await calls.call({ method: "DELETE", path: pathOf(id) });
  },
};

/** The newest first. */
async function* batchesOf(calls: VendorCalls): AsyncGenerator<Record<string, unknown>> {
  let after = "";
  for (let page = 0; page < vendorPagesMax; page++) {
    const path = `${batchesPath}?limit=${pageSize}${after}`;
    const { data, has_more: hasMore, last_id: last } = await calls.call({ method: "GET", path });
    for (const batch of listOf(data)) yield objectOf(batch);
    if (hasMore !== true) return;
    after = `&after_id=${encodeURIComponent(String(last))}`;
  }
}

const hasName = (calls: VendorCalls, id: unknown, name: string): Promise<boolean> =>
  calls.read({ method: "GET", path: `${pathOf(id)}/results` }, async (body) => {
    for await (const { bytes } of linesOf(body, vendorAnswerBytesMax)) {
      const { custom_id: customId } = (bytes && parsedObject(bytes)) ?? {};
      return String(customId).startsWith(idOf(name, ""));
    }
    return false;
  });

/** https://docs.claude.com/en/api/retrieving-message-batch-results */
function answerIn(line: Buffer): VendorAnswerLine | undefined {
  const { custom_id: customId, result } = parsedObject(line) ?? {};
  if (objectOf(result).type !== "succeeded") return undefined;
  const span = memberSpanOf(line, ["result", "message"]);
  const place = placeIn(/^[0-9a-f]{40}-(\d+)$/.exec(String(customId))?.[1]);
  return span && place !== undefined ? { place, body: line.subarray(span.start, span.end) } : undefined;
}
