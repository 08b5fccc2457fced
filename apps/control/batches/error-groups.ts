/** The failed requests of a batch, grouped by what their results say. */
import type { batchErrorOperations } from "#api/batch-errors.ts";
import { type JsonObject, objectOf, parsedObject, plainObjectOf } from "#wire/json/parse.ts";
import { linesOf } from "#wire/lines.ts";
import type { Handlers } from "../api/handlers.ts";
import {
  batchErrorBytesMax,
  batchErrorCodeMax,
  batchErrorCodesMax,
  batchErrorLinesShown,
  batchErrorTextMax,
  batchLineBytesMax,
} from "../bounds.ts";
import { resultsOf, storedResultsOf } from "./batch-results.ts";
import type { BatchService } from "./context.ts";
import { reasonTexts } from "./format.ts";
import { type BatchDialect, batchFormats } from "./formats.ts";
import { viewOf } from "./handlers.ts";

/** `batches` is undefined where the gateway runs none. */
export const batchErrorHandlers = (batches: BatchService | undefined): Handlers<typeof batchErrorOperations> => ({
  async listBatchErrors({ params: { batch: id } }, context) {
    const view = await viewOf(context, id);
    if (batches === undefined) return { body: { groups: [], isCut: false } };
    const { dialect, ended_at } = view;
    const results =
      ended_at === null
        ? resultsOf(batches, view, "error")
        : storedResultsOf(batches, view, batchFormats[dialect].hasErrorFile ? "error" : undefined);
    return { body: await errorGroupsOf(dialect, results) };
  },
});

interface LineError {
  code: string;
  message: string;
}

interface ErrorGroup {
  code: string;
  count: number;
  lines: { customId: string | null; message: string }[];
}

const errorOf = (error: JsonObject, code: unknown): LineError => ({
  code: String(code ?? "unknown"),
  message: String(error.message ?? ""),
});

/** The error of a result; undefined for a success. */
const errorReaders: Record<BatchDialect, (result: JsonObject) => LineError | undefined> = {
  openai(result) {
    const own = plainObjectOf(result.error);
    if (own !== undefined) return errorOf(own, own.code);
    const response = objectOf(result.response);
    if (Number(response.status_code) < 400) return undefined;
    const error = objectOf(objectOf(response.body).error);
    return errorOf(error, error.code ?? error.type ?? response.status_code);
  },
  anthropic(line) {
    const { type, error } = objectOf(line.result);
    if (type === "canceled") return { code: "batch_cancelled", message: reasonTexts.cancelled };
    if (type === "expired") return { code: "batch_expired", message: reasonTexts.expired };
    if (type !== "errored") return undefined;
    const inner = objectOf(objectOf(error).error);
    return errorOf(inner, inner.type);
  },
  gemini(line) {
    const error = plainObjectOf(line.error);
    return error && errorOf(error, error.status);
  },
};

/** Reads so many bytes of results at most; `isCut` says whether there are more. */
export async function errorGroupsOf(
  dialect: BatchDialect,
  results: AsyncIterable<Buffer>,
): Promise<{ groups: ErrorGroup[]; isCut: boolean }> {
  const groups = new Map<string, ErrorGroup>();
  let bytesRead = 0;
  let isCut = false;
  for await (const { bytes } of linesOf(results, batchLineBytesMax)) {
    bytesRead += bytes?.length ?? batchLineBytesMax;
    const line = bytes && parsedObject(bytes);
    const error = line && errorReaders[dialect](line);
    if (error !== undefined) {
      const ownCode = error.code.slice(0, batchErrorCodeMax);
      const code = groups.has(ownCode) || groups.size < batchErrorCodesMax ? ownCode : "others";
      const group = groups.get(code) ?? { code, count: 0, lines: [] };
      groups.set(code, group);
      group.count++;
      const customId = line?.custom_id ?? line?.key;
      if (group.lines.length < batchErrorLinesShown)
        group.lines.push({
          customId: typeof customId === "string" ? customId : null,
          message: error.message.slice(0, batchErrorTextMax),
        });
    }
    if (bytesRead > batchErrorBytesMax) {
      isCut = true;
      break;
    }
  }
  return { groups: [...groups.values()].toSorted((a, b) => b.count - a.count), isCut };
}
