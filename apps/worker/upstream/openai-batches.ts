/** OpenAI's batches, and those of vendors with the same: https://platform.openai.com/docs/api-reference/batch */
import { randomUUID } from "node:crypto";
import { isObject, listOf, objectOf, parsedObject, textOf } from "#wire/json/parse.ts";
import { memberSpanOf } from "#wire/json/spans.ts";
import { linesOf } from "#wire/lines.ts";
import { vendorAnswerBytesMax, vendorPagesMax } from "../bounds.ts";
import {
  idIn,
  placeIn,
  reasonOf,
  type VendorAnswerLine,
  type VendorBatchApi,
  type VendorCalls,
  VendorRefusal,
  type VendorRequests,
} from "./vendor-calls.ts";

/** https://platform.openai.com/docs/api-reference/batch/create */
const paths: ReadonlySet<string> = new Set([
  "/chat/completions",
  "/responses",
  "/embeddings",
  "/completions",
  "/moderations",
  "/images/generations",
]);

/** The key of the metadata with a batch's name. */
const nameField = "sluice_batch";
const pageSize = 100;
const fileNameOf = (name: string) => `${name}.jsonl`;

export const openAiBatches: VendorBatchApi = {
  takes: ({ path, headers = {} }) => paths.has(path) && Object.keys(headers).length === 0,

  async submit(calls, batch) {
    const file = idIn(await calls.call({ method: "POST", path: "/files", ...formOf(batch) }));
    const body = {
      input_file_id: file,
      endpoint: `/v1${batch.target.path}`,
      completion_window: "24h",
      metadata: { [nameField]: batch.name },
    };
    try {
      return idIn(await calls.call({ method: "POST", path: "/batches", body: Buffer.from(JSON.stringify(body)) }));
    } catch (error) {
      if (error instanceof VendorRefusal) await deleteFile(calls, file).catch(() => undefined);
      throw error;
    }
  },

  async find(calls, name) {
    const batch = await firstOf(calls, "/batches?", ({ metadata }) => objectOf(metadata)[nameField] === name);
    if (batch !== undefined) return idIn(batch);
    const file = await firstOf(calls, "/files?purpose=batch&", ({ filename }) => filename === fileNameOf(name));
    if (file !== undefined) await deleteFile(calls, file.id);
    return undefined;
  },

  async stateOf(calls, id, cancels) {
    const path = pathOf("batches", id);
    const { status, errors } = await calls.call({ method: "GET", path });
    if (status === "completed" || status === "cancelled") return { isRunning: false };
    if (status === "failed" || status === "expired")
      return { isRunning: false, reason: reasonOf(status, listOf(objectOf(errors).data)[0]) };
    if (cancels && status !== "cancelling") await calls.call({ method: "POST", path: `${path}/cancel` });
    return { isRunning: true };
  },

  async readAnswers(calls, id, take) {
    const { output_file_id: file } = await calls.call({ method: "GET", path: pathOf("batches", id) });
    if (typeof file !== "string") return;
    await calls.read({ method: "GET", path: `${pathOf("files", file)}/content` }, async (body) => {
      for await (const { bytes } of linesOf(body, vendorAnswerBytesMax)) {
        const answer = bytes && answerIn(bytes);
        if (answer !== undefined && !(await take(answer))) return;
      }
    });
  },

  async delete(calls, id) {
    const batch = await calls.call({ method: "GET", path: pathOf("batches", id) });
    for (const name of ["input_file_id", "output_file_id", "error_file_id"])
      if (textOf(batch[name]) !== undefined) await deleteFile(calls, batch[name]);
  },
};

async function deleteFile(calls: VendorCalls, id: unknown): Promise<void> {
  await calls.call({ method: "DELETE", path: pathOf("files", id) }).catch((error) => {
    if (!(error instanceof VendorRefusal && error.status === 404)) throw error;
  });
}

const pathOf = (kind: "files" | "batches", id: unknown): string => `/${kind}/${encodeURIComponent(String(id))}`;

/** The first object of a list that matches, the newest first. */
async function firstOf(
  calls: VendorCalls,
  path: string,
  matches: (item: Record<string, unknown>) => boolean,
): Promise<Record<string, unknown> | undefined> {
  let after = "";
  for (let page = 0; page < vendorPagesMax; page++) {
    const { data, has_more: hasMore } = await calls.call({ method: "GET", path: `${path}limit=${pageSize}${after}` });
    const items = (Array.isArray(data) ? data : []).filter(isObject);
    const item = items.find(matches);
    if (item !== undefined) return item;
    if (hasMore !== true || items.length === 0) return undefined;
    after = `&after=${encodeURIComponent(String(items.at(-1)?.id))}`;
  }
  return undefined;
}

/** https://platform.openai.com/docs/api-reference/batch/request-output */
function answerIn(line: Buffer): VendorAnswerLine | undefined {
  const { custom_id: customId, response } = parsedObject(line) ?? {};
  const { status_code: status } = objectOf(response);
  if (typeof status !== "number" || status < 200 || status > 299) return undefined;
  const span = memberSpanOf(line, ["response", "body"]);
  const place = placeIn(customId);
  return span && place !== undefined ? { place, body: line.subarray(span.start, span.end) } : undefined;
}

/** RFC 7578. */
function formOf({ name, target, requests }: VendorRequests): { headers: Record<string, string>; body: Buffer } {
  const boundary = randomUUID();
  const url = JSON.stringify(`/v1${target.path}`);
  const parts = [
    `--${boundary}\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n`,
    `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="${fileNameOf(name)}"\r\n`,
    "content-type: application/jsonl\r\n\r\n",
  ];
  const lines = [...requests].flatMap(([place, body]) => [
    Buffer.from(`{"custom_id":"${place}","method":"POST","url":${url},"body":`),
    body,
    Buffer.from("}\n"),
  ]);
  return {
    headers: { "content-type": `multipart/form-data; boundary=${boundary}` },
    body: Buffer.concat([Buffer.from(parts.join("")), ...lines, Buffer.from(`\r\n--${boundary}--\r\n`)]),
  };
}
