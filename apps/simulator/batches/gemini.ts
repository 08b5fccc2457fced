/** Gemini's batches with requests in the body: https://ai.google.dev/api/batch-api */
import { randomUUID } from "node:crypto";
import { isObject } from "../answer/schema.ts";
import { refuse } from "../dialects/dialect.ts";
import { geminiErrorBody } from "../dialects/gemini/error.ts";
import {
  type BatchRequest,
  batchFaultOf,
  Kept,
  type RunOptions,
  runRequests,
  type SendToSelf,
  type VendorBatches,
} from "./batch-run.ts";

const createForm = /^\/v1(?:beta)?\/models\/(.+):batchGenerateContent$/;
const pathForm = /^\/v1(?:beta)?\/batches(?:\/([^/:]+)(:cancel)?)?$/;
/** https://ai.google.dev/gemini-api/docs/batch-api */
const bytesMax = 20 << 20;

interface Request {
  request: Record<string, unknown>;
  metadata?: unknown;
}

type State = "PENDING" | "RUNNING" | "SUCCEEDED" | "FAILED" | "CANCELLED" | "EXPIRED";

interface Stored {
  name: string;
  model: string;
  displayName: string;
  createTime: string;
  state: State;
  isCancelled: boolean;
  total: number;
  responses: object[];
}

const isOver = ({ state }: Stored): boolean => state !== "PENDING" && state !== "RUNNING";

export class GeminiBatches implements VendorBatches {
  readonly #send: SendToSelf;
  readonly #batches = new Kept<Stored>(() => "Requested entity was not found.");

  constructor(send: SendToSelf) {
    this.#send = send;
  }

  readonly errorBody = geminiErrorBody;

  /** OpenAI's batches have the same paths but for the version. */
  serves(_method: string, path: string): boolean {
    return createForm.test(path) || (path.startsWith("/v1beta/") && pathForm.test(path));
  }

  answer(request: BatchRequest): object {
    const answer = this.#answer(request);
    // https://developers.google.com/workspace/drive/api/guides/performance#partial-response
    const fields = request.query.get("fields");
    return fields === null
      ? answer
      : partOf(
          answer,
          fields.split(",").map((field) => field.split("/")),
        );
  }

  #answer({ method, path, query, body, headers }: BatchRequest): object {
    const [, model] = createForm.exec(path) ?? [];
    if (model !== undefined && method === "POST") return this.#create(model, body, headers);
    const [, id, cancel = ""] = pathForm.exec(path) ?? [];
    switch (`${method}${id === undefined ? "" : " id"} ${cancel}`.trim()) {
      case "GET": {
        const size = Number(query.get("pageSize") ?? 50);
        const from = Number(query.get("pageToken") ?? 0);
        const all = this.#batches.list();
        const operations = all.slice(from, from + size).map(operationOf);
        return { operations, ...(all.length > from + size && { nextPageToken: String(from + size) }) };
      }
      case "GET id":
        return operationOf(this.#batches.find(id));
      case "POST id :cancel":
        this.#batches.find(id).isCancelled = true;
        return {};
      case "DELETE id":
        this.#batches.delete(id);
        return {};
      default:
        return refuse(`There is no ${method} ${path}.`, undefined, { status: 404 });
    }
  }

  #create(model: string, body: unknown, headers: Record<string, string>): object {
    const { batch } = isObject(body) ? body : {};
    const { displayName, inputConfig } = isObject(batch) ? batch : {};
    const { requests: container } = isObject(inputConfig) ? inputConfig : {};
    const { requests } = isObject(container) ? container : {};
    if (typeof displayName !== "string" || displayName === "") return refuse("batch.display_name: required");
    if (!Array.isArray(requests) || requests.length === 0) return refuse("batch.input_config: required");
    if (JSON.stringify(body).length > bytesMax) refuse("The requests are larger than 20 MB.");
    for (const [index, item] of requests.entries())
      if (!isObject(item) || !isObject(item.request)) refuse(`batch.input_config.requests[${index}].request: required`);
    const fault = batchFaultOf(model);
    if (fault === "refuse") refuse("The project has no quota for batches.", undefined, { status: 403 });
    const id = randomUUID().replaceAll("-", "");
    const stored: Stored = {
      ...{ name: `batches/${id}`, model: `models/${model}`, displayName, createTime: new Date().toISOString() },
      ...{ state: "PENDING", isCancelled: false, total: requests.length, responses: [] },
    };
    this.#batches.add(id, stored);
    setImmediate(() => void this.#run(stored, requests as Request[], { fault, headers }));
    return operationOf(stored);
  }

  async #run(stored: Stored, requests: readonly Request[], { fault, headers }: RunOptions): Promise<void> {
    if (fault === "fail") {
      stored.state = "FAILED";
      return;
    }
    stored.state = "RUNNING";
    const path = `/v1beta/${stored.model}:generateContent`;
    const responses = new Map<Request, object>();
    const isRunning = () => !stored.isCancelled;
    const left = await runRequests(requests, { fault, isRunning }, async (item) => {
      const { status, text } = await this.#send(path, JSON.stringify(item.request), headers);
      const answer = JSON.parse(text) as { error?: object };
      responses.set(item, status < 300 ? { response: answer } : { error: answer.error });
    });
    const error = { code: 1, message: "The request was not executed." };
    for (const item of left) responses.set(item, { error });
    stored.responses = requests.map((item) => ({
      ...responses.get(item),
      ...(item.metadata !== undefined && { metadata: item.metadata }),
    }));
    stored.state = stored.isCancelled ? "CANCELLED" : fault === "expire" ? "EXPIRED" : "SUCCEEDED";
  }
}

function operationOf(stored: Stored): object {
  const { name, model, displayName, createTime, state, total, responses } = stored;
  const type = "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch";
  const metadata = {
    ...{ "@type": type, model, displayName, createTime, batchStats: { requestCount: String(total) } },
    ...{ state: `BATCH_STATE_${state}`, name },
  };
  const output = { inlinedResponses: { inlinedResponses: responses } };
  if (!isOver(stored)) return { name, metadata };
  if (state === "FAILED") return { name, metadata, done: true, error: { code: 3, message: "The batch failed." } };
  return { name, metadata: { ...metadata, output }, done: true, response: { "@type": `${type}Output`, ...output } };
}

/** The members at these paths. */
function partOf(value: object, paths: readonly string[][]): object {
  if (Array.isArray(value)) return value.map((item) => partOf(item, paths));
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, member]) => {
      const inside = paths.filter(([first]) => first === name).map(([, ...rest]) => rest);
      if (inside.length === 0) return [];
      const isWhole = inside.some((rest) => rest.length === 0) || typeof member !== "object" || member === null;
      return [[name, isWhole ? member : partOf(member, inside)]];
    }),
  );
}
