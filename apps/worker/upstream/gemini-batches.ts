/** Gemini's batches with requests in the body: https://ai.google.dev/api/batch-api */
import { elementsOf } from "#wire/elements.ts";
import { listOf, objectOf, parsedObject } from "#wire/json/parse.ts";
import { memberSpanOf } from "#wire/json/spans.ts";
import { vendorAnswerBytesMax, vendorCallBytesMax, vendorPagesMax } from "../bounds.ts";
import { placeIn, reasonOf, type VendorAnswerLine, type VendorBatchApi } from "./vendor-calls.ts";

const callForm = /^(\/models\/.+):generateContent$/;
const pageSize = 100;

export const geminiBatches: VendorBatchApi = {
  takes: ({ path }) => callForm.test(path),

  async submit(calls, { name, target, requests }) {
    const parts = [...requests].flatMap(([place, body], index) => [
      Buffer.from(`${index === 0 ? "" : ","}{"metadata":{"key":"${place}"},"request":`),
      body,
      Buffer.from("}"),
    ]);
    const head = `{"batch":{"displayName":${JSON.stringify(name)},"inputConfig":{"requests":{"requests":[`;
    const body = Buffer.concat([Buffer.from(head), ...parts, Buffer.from("]}}}}")]);
    const path = target.path.replace(callForm, "$1:batchGenerateContent");
    return nameIn(await calls.call({ method: "POST", path, body }));
  },

  async find(calls, name) {
    const fields = "operations/name,operations/metadata/displayName,nextPageToken";
    let token = "";
    for (let page = 0; page < vendorPagesMax; page++) {
      const list = await calls.call({ method: "GET", path: `/batches?pageSize=${pageSize}&fields=${fields}${token}` });
      const operations = listOf(list.operations).map(objectOf);
      const operation = operations.find(({ metadata }) => objectOf(metadata).displayName === name);
      if (operation !== undefined) return nameIn(operation);
      if (typeof list.nextPageToken !== "string" || list.nextPageToken === "") return undefined;
      token = `&pageToken=${encodeURIComponent(list.nextPageToken)}`;
    }
    return undefined;
  },

  /** An operation that is over has all its answers, so only its state is read. */
  async stateOf(calls, id, cancels) {
    const { done, metadata } = await calls.call({ method: "GET", path: `/${id}?fields=done,metadata/state` });
    const { state } = objectOf(metadata);
    const hasFailed = typeof state === "string" && /FAILED|EXPIRED/.test(state);
    if (done === true) return { isRunning: false, ...(hasFailed && { reason: reasonOf(state, undefined) }) };
    if (cancels) await calls.call({ method: "POST", path: `/${id}:cancel`, body: Buffer.from("{}") });
    return { isRunning: true };
  },

  readAnswers: (calls, id, take) =>
    calls.read({ method: "GET", path: `/${id}?fields=response` }, async (body) => {
      const bounds = { elementBytesMax: vendorAnswerBytesMax, restBytesMax: vendorCallBytesMax };
      for await (const part of elementsOf(body, answersPath, bounds)) {
        const answer = part.kind === "element" && part.bytes ? answerIn(part.bytes) : undefined;
        if (answer !== undefined && !(await take(answer))) return;
      }
    }),

  async delete(calls, id) {
    await calls.call({ method: "DELETE", path: `/${id}` });
  },
};

const answersPath = ["response", "inlinedResponses", "inlinedResponses"];

/** The vendor's name of the operation, which is its path. */
function nameIn({ name }: Record<string, unknown>): string {
  if (typeof name !== "string" || !/^batches\/[\w-]+$/.test(name)) throw new Error("the vendor names no batch");
  return name;
}

function answerIn(element: Buffer): VendorAnswerLine | undefined {
  const { metadata } = parsedObject(element) ?? {};
  const span = memberSpanOf(element, ["response"]);
  const place = placeIn(objectOf(metadata).key);
  return span && place !== undefined ? { place, body: element.subarray(span.start, span.end) } : undefined;
}
