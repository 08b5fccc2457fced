/**
 * OpenAI's files and batches: https://platform.openai.com/docs/api-reference/batch and
 * https://platform.openai.com/docs/api-reference/files. The requests of a batch are sent to the
 * simulator itself, with the caller's credential.
 */
import { randomUUID } from "node:crypto";
import { isObject } from "../answer/schema.ts";
import { refuse } from "../dialects/dialect.ts";
import { openaiErrorBody } from "../dialects/openai.ts";
import { isFile } from "../request-body.ts";
import {
  type BatchRequest,
  batchFaultOf,
  Kept,
  limitIn,
  pageOf,
  type RunOptions,
  runRequests,
  type SendToSelf,
  type VendorBatches,
} from "./batch-run.ts";

/** https://platform.openai.com/docs/api-reference/batch/create */
const endpoints = [
  "/v1/responses",
  "/v1/chat/completions",
  "/v1/embeddings",
  "/v1/completions",
  "/v1/moderations",
  "/v1/images/generations",
];
/** https://platform.openai.com/docs/guides/batch */
const linesMax = 50_000;
const fileBytesMax = 200 << 20;
/** https://platform.openai.com/docs/api-reference/files/create */
const purposes = ["assistants", "batch", "fine-tune", "vision", "user_data", "evals"];
/** https://platform.openai.com/docs/api-reference/batch/create#batch_create-metadata */
const metadataMax = { pairs: 16, nameLength: 64, valueLength: 512 };
/** https://platform.openai.com/docs/api-reference/batch/list */
const listedMax = 100;

interface StoredFile {
  id: string;
  object: "file";
  bytes: number;
  created_at: number;
  filename: string;
  purpose: string;
  status: "processed";
}

interface Line {
  custom_id: string;
  body: Record<string, unknown>;
}

interface LineError {
  code: string;
  message: string;
  line: number | null;
  param: null;
}

interface Batch {
  id: string;
  object: "batch";
  endpoint: string;
  errors: { object: "list"; data: LineError[] } | null;
  input_file_id: string;
  completion_window: "24h";
  status: "validating" | "in_progress" | "finalizing" | "completed" | "failed" | "expired" | "cancelling" | "cancelled";
  output_file_id: string | null;
  error_file_id: string | null;
  created_at: number;
  request_counts: { total: number; completed: number; failed: number };
  metadata: unknown;
}

const pathForm = /^\/v1\/(files|batches)(?:\/([^/]+)(?:\/(content|cancel))?)?$/;

export class OpenAiBatches implements VendorBatches {
  readonly #send: SendToSelf;
  readonly #files = new Kept<{ file: StoredFile; content: string }>((id) => `No such File object: ${id}`, "id");
  readonly #batches = new Kept<Batch>((id) => `No batch found with id '${id}'.`);

  constructor(send: SendToSelf) {
    this.#send = send;
  }

  readonly errorBody = openaiErrorBody;

  serves(_method: string, path: string): boolean {
    return pathForm.test(path);
  }

  answer({ method, path, query, body, headers }: BatchRequest): object | string {
    const [, kind, id, part = ""] = pathForm.exec(path) ?? [];
    switch (`${method} ${kind} ${id === undefined ? "" : "id"} ${part}`.trim().replaceAll(/ +/g, " ")) {
      case "POST files":
        return this.#upload(body);
      case "GET files":
        return listOf(this.#filesOf(query.get("purpose")), query);
      case "GET files id":
        return this.#files.find(id).file;
      case "GET files id content":
        return this.#files.find(id).content;
      case "DELETE files id":
        this.#files.delete(id);
        return { id, object: "file", deleted: true };
      case "POST batches":
        return this.#create(body, headers);
      case "GET batches":
        return listOf(this.#batches.list(), query);
      case "GET batches id":
        return this.#batches.find(id);
      case "POST batches id cancel":
        return this.#cancel(this.#batches.find(id));
      default:
        return refuse(`Invalid URL (${method} ${path})`, undefined, { status: 404 });
    }
  }

  #filesOf(purpose: string | null): StoredFile[] {
    const files = this.#files.list().map(({ file }) => file);
    return purpose === null ? files : files.filter((file) => file.purpose === purpose);
  }

  #upload(body: unknown): StoredFile {
    const { purpose, file } = isObject(body) ? body : {};
    if (typeof purpose !== "string" || !purposes.includes(purpose))
      refuse("'purpose' is not one of the allowed.", "purpose");
    if (!isFile(file)) return refuse("'file' is a required property", "file");
    const { name, data } = file;
    // https://platform.openai.com/docs/guides/batch: ".jsonl".
    if (purpose === "batch" && !name.endsWith(".jsonl"))
      refuse("Invalid file format for Batch API. Must be .jsonl", "file");
    if (purpose === "batch" && data.length > fileBytesMax) refuse("The file is larger than 200 MB.", "file");
    return this.#store(name, purpose as string, data.toString());
  }

  #store(filename: string, purpose: string, content: string): StoredFile {
    const file: StoredFile = {
      ...{ id: `file-${randomUUID().replaceAll("-", "").slice(0, 24)}`, object: "file" },
      ...{ bytes: Buffer.byteLength(content), created_at: secondsNow(), filename, purpose, status: "processed" },
    };
    this.#files.add(file.id, { file, content });
    return file;
  }

  #create(body: unknown, headers: Record<string, string>): Batch {
    const { input_file_id: fileId, endpoint, completion_window: window, metadata = null } = isObject(body) ? body : {};
    if (typeof fileId !== "string") return refuse("Missing required parameter: 'input_file_id'.", "input_file_id");
    const input = this.#files.get(fileId);
    if (input === undefined) return refuse(`File '${fileId}' does not exist.`, "input_file_id");
    if (input.file.purpose !== "batch") refuse("The input file must have the purpose 'batch'.", "input_file_id");
    if (typeof endpoint !== "string" || !endpoints.includes(endpoint))
      return refuse(`Invalid value: '${endpoint}'. Supported values are: ${endpoints.join(", ")}.`, "endpoint");
    if (window !== "24h")
      refuse("Invalid value for 'completion_window'. Supported values are: '24h'.", "completion_window");
    if (metadata !== null && !isMetadata(metadata)) refuse("Invalid 'metadata'.", "metadata");
    const { lines, errors } = linesIn(input.content, endpoint);
    const fault = batchFaultOf(lines[0]?.body.model);
    if (fault === "refuse") refuse("The account has no quota for batches.", undefined, { status: 403 });
    const batch: Batch = {
      ...{ id: `batch_${randomUUID().replaceAll("-", "")}`, object: "batch", endpoint, errors: null },
      ...{ input_file_id: fileId, completion_window: "24h", status: "validating", metadata },
      ...{ output_file_id: null, error_file_id: null, created_at: secondsNow() },
      request_counts: { total: 0, completed: 0, failed: 0 },
    };
    this.#batches.add(batch.id, batch);
    const created = { ...batch };
    setImmediate(() => {
      if (errors.length > 0 || fault === "fail") {
        const data =
          errors.length > 0 ? errors : [errorOf("token_limit_exceeded", "Enqueued token limit reached.", null)];
        Object.assign(batch, { status: "failed", errors: { object: "list", data } });
      } else void this.#run(batch, lines, { fault, headers });
    });
    return created;
  }

  async #run(batch: Batch, lines: readonly Line[], { fault, headers }: RunOptions): Promise<void> {
    if (batch.status !== "validating") return;
    Object.assign(batch, { status: "in_progress", request_counts: { total: lines.length, completed: 0, failed: 0 } });
    const results = { output: [] as string[], error: [] as string[] };
    const runLine = async ({ custom_id, body }: Line) => {
      const answer = await this.#send(batch.endpoint, JSON.stringify(body), headers);
      const isSuccess = answer.status < 300;
      const response = { status_code: answer.status, request_id: answer.requestId, body: JSON.parse(answer.text) };
      const line = { id: `batch_req_${randomUUID()}`, custom_id, response, error: null };
      results[isSuccess ? "output" : "error"].push(JSON.stringify(line));
      batch.request_counts[isSuccess ? "completed" : "failed"]++;
    };
    const left = await runRequests(lines, { fault, isRunning: () => this.#isRunning(batch) }, runLine);
    const code = fault === "expire" ? "batch_expired" : "batch_cancelled";
    for (const { custom_id } of left) {
      const error = { code, message: "This request was not executed." };
      results.error.push(JSON.stringify({ id: `batch_req_${randomUUID()}`, custom_id, response: null, error }));
    }
    const fileOf = (kind: keyof typeof results): string | null =>
      results[kind].length === 0
        ? null
        : this.#store(`${batch.id}_${kind}.jsonl`, "batch_output", `${results[kind].join("\n")}\n`).id;
    Object.assign(batch, { output_file_id: fileOf("output"), error_file_id: fileOf("error") });
    const end = fault === "expire" ? "expired" : "completed";
    batch.status = this.#isRunning(batch) ? end : "cancelled";
  }

  #isRunning({ status }: Batch): boolean {
    return status === "in_progress";
  }

  #cancel(batch: Batch): Batch {
    if (batch.status !== "in_progress")
      refuse(`Cannot cancel a batch with status '${batch.status}'.`, undefined, { status: 409 });
    batch.status = "cancelling";
    return batch;
  }
}

const secondsNow = (): number => Math.floor(Date.now() / 1_000);

function listOf(items: readonly { id: string }[], query: URLSearchParams): object {
  const limit = limitIn(query, listedMax) ?? refuse("Invalid 'limit'.", "limit");
  return { object: "list", ...pageOf(items, limit, query.get("after")) };
}

const isMetadata = (value: unknown): boolean =>
  isObject(value) &&
  Object.keys(value).length <= metadataMax.pairs &&
  Object.entries(value).every(
    ([name, text]) =>
      name.length <= metadataMax.nameLength && typeof text === "string" && text.length <= metadataMax.valueLength,
  );

const errorOf = (code: string, message: string, line: number | null): LineError => ({
  code,
  message,
  line,
  param: null,
});

/** The codes: https://learn.microsoft.com/en-us/azure/ai-services/openai/how-to/batch */
function linesIn(content: string, endpoint: string): { lines: Line[]; errors: LineError[] } {
  const texts = content.split("\n").filter((text) => text.trim() !== "");
  const lines: Line[] = [];
  const errors: LineError[] = [];
  const ids = new Set<unknown>();
  const models = new Set<unknown>();
  for (const [index, text] of texts.entries()) {
    const add = (code: string, message: string) => errors.push(errorOf(code, message, index + 1));
    const value = parsed(text);
    if (!isObject(value)) {
      add("invalid_json_line", "This line is not parseable as valid JSON.");
      continue;
    }
    const { custom_id: id, method, url, body } = value;
    if (typeof id !== "string" || method !== "POST" || !isObject(body)) add("invalid_request", "A field is missing.");
    else if (url !== endpoint) add("url_mismatch", "The url is not the endpoint of the batch.");
    else if (ids.has(id)) add("duplicate_custom_id", "The custom_id is that of another line.");
    else if (body.stream === true) add("invalid_request", "Streaming is not supported in batches.");
    else if (models.size > 0 && !models.has(body.model)) add("mismatched_model", "The lines have different models.");
    else {
      ids.add(id);
      models.add(body.model);
      lines.push({ custom_id: id, body });
    }
  }
  if (texts.length === 0) errors.push(errorOf("empty_file", "The input file is empty.", null));
  if (texts.length > linesMax) errors.push(errorOf("too_many_tasks", `There are more than ${linesMax} lines.`, null));
  return { lines, errors };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
