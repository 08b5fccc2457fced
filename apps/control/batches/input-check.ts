/**
 * Checks the input of a batch line by line before any of it runs. Memory is bounded by the number
 * of lines: of a line only a part of its id's hash is remembered.
 */
import { hash } from "node:crypto";
import type { InputLine } from "#wire/lines.ts";
import { type BatchFormat, type InputFaultCode, LineFault, type RequestLine } from "./format.ts";
import { readLine } from "./formats.ts";

/** A fault of the input. `line` is null for one of the whole input. */
export interface InputFault {
  code: InputFaultCode;
  message: string;
  line: number | null;
  param: string | null;
}

interface InputBounds {
  linesMax: number;
  bytesMax: number;
  lineBytesMax: number;
  faultsMax: number;
}

/** Hexadecimal characters that distinguish the ids of a batch, 128 bits. */
const idHashCharacters = 32;

export interface CheckOptions {
  format: BatchFormat;
  bounds: InputBounds;
  /** The path of the requests. */
  endpoint: string;
  /** Whether the batch's key may use the model. */
  allowsModel(model: string): boolean;
}

export class InputCheck {
  readonly #options: CheckOptions;
  readonly #ids = new Set<string>();
  readonly #models = new Map<string, boolean>();
  readonly faults: InputFault[] = [];
  lines = 0;
  bytes = 0;
  /** The estimate of the requests without fault. */
  tokens = 0;

  constructor(options: CheckOptions) {
    this.#options = options;
  }

  /** The only model of the lines; undefined for several. */
  get model(): string | undefined {
    const [first, ...others] = this.#models.keys();
    return others.length === 0 ? first : undefined;
  }

  /** True once further lines need not be read. */
  get isOver(): boolean {
    const { linesMax, bytesMax, faultsMax } = this.#options.bounds;
    return this.lines > linesMax || this.bytes > bytesMax || this.faults.length >= faultsMax;
  }

  /** The request of a line; undefined for a line at fault, or one after the bounds. */
  add({ number, bytes }: InputLine): RequestLine | undefined {
    const { format, endpoint, bounds } = this.#options;
    const { linesMax, bytesMax, lineBytesMax } = bounds;
    this.lines++;
    this.bytes += bytes?.length ?? lineBytesMax;
    if (this.lines > linesMax) return this.#fault(null, "too_many_tasks", `A batch has at most ${linesMax} requests.`);
    if (this.bytes > bytesMax)
      return this.#fault(null, "file_too_large", `The requests of a batch have at most ${bytesMax} bytes.`);
    if (bytes === undefined)
      return this.#fault(number, "line_too_long", `A request has at most ${lineBytesMax} bytes.`);
    const line = readLine(format, bytes, endpoint);
    if (line instanceof LineFault) return this.#fault(number, line.code, line.message, line.param);
    if (line.model !== undefined && !this.#allows(line.model))
      return this.#fault(
        number,
        "model_not_found",
        `The model ${JSON.stringify(line.model.slice(0, 200))} does not exist, or this key may not use it.`,
        format.modelParam,
      );
    if (line.customId !== undefined && this.#isRepeated(line.customId))
      return this.#fault(
        number,
        "duplicate_custom_id",
        `The id ${JSON.stringify(line.customId)} is that of an earlier request.`,
        "custom_id",
      );
    this.tokens += line.inputTokens;
    return line;
  }

  /** After the last line. */
  end(): void {
    if (this.lines === 0) this.#fault(null, "empty_file", "The input contains no requests.");
  }

  #allows(model: string): boolean {
    const allowed = this.#models.get(model) ?? this.#options.allowsModel(model);
    if (allowed) this.#models.set(model, true);
    return allowed;
  }

  #isRepeated(customId: string): boolean {
    const { size } = this.#ids;
    return this.#ids.add(hash("sha256", customId, "hex").slice(0, idHashCharacters)).size === size;
  }

  #fault(line: number | null, code: InputFaultCode, message: string, param: string | null = null): undefined {
    if (this.faults.length < this.#options.bounds.faultsMax) this.faults.push({ code, message, line, param });
    return undefined;
  }
}
