/**
 * Takes the input of a batch: checks every line, and stores the lines in chunks. Nothing runs
 * before all of it was checked. An interrupted intake is repeated from the start.
 */
import { type InputLine, linesOf } from "#wire/lines.ts";
import { batchLineBytesMax, chunkBytesMax, chunkLinesMax, inputRunsMax } from "../bounds.ts";
import { deleteInputs } from "./batch-results.ts";
import { type AcceptedInput, acceptBatch, type Batch, rejectBatch } from "./batch-rows.ts";
import { type ChunkLine, encodeInput, objectNames } from "./chunk-format.ts";
import type { BatchContext } from "./context.ts";
import type { RequestLine } from "./format.ts";
import { batchFormats } from "./formats.ts";
import { InputCheck, type InputFault } from "./input-check.ts";

type BatchInput = Pick<Batch, "id" | "account" | "key_id" | "runs" | "dialect" | "endpoint" | "model">;

/** Checks the file of a batch, which then runs or has failed. */
export async function takeFile(context: BatchContext, batch: Batch): Promise<void> {
  const { files, database, clock } = context;
  const file = await files.open(batch.account, batch.input_file_id ?? "");
  const lines = file && linesOf(file.content, batchLineBytesMax);
  const faults =
    lines === undefined
      ? [missingFile]
      : await takeLines(context, batch, lines).catch((error) => {
          if (batch.runs < inputRunsMax) throw error;
          return [unreadableFile];
        });
  if (faults.length > 0) await rejectBatch(database, batch, faults, new Date(clock.epoch()));
}

const missingFile: InputFault = {
  code: "file_not_readable",
  message: "The input file does not exist any more.",
  line: null,
  param: "input_file_id",
};

const unreadableFile: InputFault = { ...missingFile, message: "The input file cannot be read." };

/**
 * Checks lines, and gives each to `accept` that is without fault, as long as none is at fault.
 * Reads no further once there are too many of them, or of their faults.
 */
export async function checkLines(
  { bounds, modelsOf }: Pick<BatchContext, "bounds" | "modelsOf">,
  { dialect, endpoint, key_id }: Pick<Batch, "dialect" | "endpoint" | "key_id">,
  lines: AsyncIterable<InputLine>,
  accept: (request: RequestLine) => Promise<void>,
): Promise<InputCheck> {
  const format = batchFormats[dialect];
  const check = new InputCheck({
    format,
    endpoint,
    bounds: {
      linesMax: bounds.linesMax ?? format.linesMax,
      bytesMax: format.bytesMax,
      lineBytesMax: batchLineBytesMax,
      faultsMax: format.faultsMax,
    },
    allowsModel: await modelsOf(key_id),
  });
  for await (const line of lines) {
    const request = check.add(line);
    if (request !== undefined && check.faults.length === 0) await accept(request);
    if (check.isOver) break;
  }
  check.end();
  return check;
}

/**
 * Checks and stores lines, and opens the batch. Resolves to the faults that refuse it; then nothing
 * of it is stored.
 */
export async function takeLines(
  context: BatchContext,
  batch: BatchInput,
  lines: AsyncIterable<InputLine>,
): Promise<InputFault[]> {
  const { database, objects, clock, bounds } = context;
  const chunks = new ChunkWriter((place, input) =>
    objects.write(batch.account, objectNames.input(batch.id, batch.runs, place), input),
  );
  let isUnused = true;
  try {
    const check = await checkLines(context, batch, lines, (request) => chunks.add(request));
    if (check.faults.length > 0) return check.faults;
    const input = { ...(await chunks.end()), tokens: BigInt(check.tokens), model: check.model ?? batch.model };
    const { tokensMax } = bounds;
    // If the answer of the database is lost, the batch may use it.
    isUnused = false;
    const outcome = await acceptBatch(database, batch, input, { tokensMax, now: new Date(clock.epoch()) });
    isUnused = outcome !== "accepted";
    return outcome === "exhausted" ? [tooManyTokens(tokensMax)] : [];
  } finally {
    if (isUnused) await deleteInputs(context, batch, batch.runs);
  }
}

export const tooManyTokens = (tokensMax: number): InputFault => ({
  code: "token_limit_exceeded",
  message: `The batches of this account that are not over have at most ${tokensMax} tokens of input. Try again when some of them are.`,
  line: null,
  param: null,
});

class ChunkWriter {
  readonly #write: (place: number, input: Buffer) => Promise<void>;
  readonly #chunks: { place: number; first_line: number; lines: number }[] = [];
  #lines: ChunkLine[] = [];
  #bytes = 0;
  #total = 0;

  constructor(write: (place: number, input: Buffer) => Promise<void>) {
    this.#write = write;
  }

  async add(request: RequestLine): Promise<void> {
    const length = request.body.length + (request.metadata?.length ?? 0);
    if (this.#lines.length === chunkLinesMax || (this.#lines.length > 0 && this.#bytes + length > chunkBytesMax))
      await this.#store();
    this.#lines.push(request);
    this.#bytes += length;
  }

  async end(): Promise<Pick<AcceptedInput, "chunks" | "total">> {
    if (this.#lines.length > 0) await this.#store();
    return { chunks: this.#chunks, total: this.#total };
  }

  async #store(): Promise<void> {
    const [place, lines] = [this.#chunks.length, this.#lines];
    this.#chunks.push({ place, first_line: this.#total, lines: lines.length });
    this.#total += lines.length;
    this.#lines = [];
    this.#bytes = 0;
    await this.#write(place, encodeInput(lines));
  }
}
