/**
 * Writes and reads answers in the format of OpenAI's legacy completions, whole and streamed:
 * https://platform.openai.com/docs/api-reference/completions/object
 */
import type { Codec, StreamEncoder } from "#dialects/codec.ts";
import { type Answer, type BlockStart, type ContentEvent, eventsOf, type Finish } from "#dialects/neutral/neutral.ts";
import { decodeAnswer, usageBodyOf } from "#dialects/openai-chat/answer.ts";
import { ChatDecoder } from "#dialects/openai-chat/stream.ts";
import { textDeltaOf } from "#dialects/openai-chat/verbatim.ts";
import { type JsonObject, jsonOf, objectOf } from "#wire/json/parse.ts";

export interface CompletionHead {
  id: string;
  /** The catalogue's id of the model. */
  model: string;
  /** Whole seconds since 1970. */
  createdAt: number;
  /** The caller wants the usage in a stream. */
  usageShown: boolean;
}

const finishNameOf = (finish: Finish) =>
  finish === "content-filter"
    ? finish.replace("-", "_")
    : ["length", "context-full"].includes(finish)
      ? "length"
      : "stop";

const common = ({ id, createdAt, model }: CompletionHead) => ({
  id,
  object: "text_completion",
  created: createdAt,
  model,
});

const choice = (text: string, finish: string | null) => ({ text, index: 0, logprobs: null, finish_reason: finish });

/**
 * The parts of an answer that are its text. Thinking is not shown: the format has no place for it.
 */
const isText = (kind: BlockStart["kind"]) => kind === "text" || kind === "refusal";

export function completionOf({ blocks, finish, usage }: Answer, head: CompletionHead): string {
  const text = blocks.flatMap((block) => ("text" in block && isText(block.kind) ? [block.text] : [])).join("");
  return jsonOf({
    ...common(head),
    choices: [choice(text, finishNameOf(finish))],
    usage: usage && usageBodyOf(usage),
  });
}

/** A whole answer, for a caller who wants a stream. */
export function completionEventsOf(answer: Answer, head: CompletionHead): string {
  const encoder = new CompletionEncoder(head);
  return eventsOf(answer)
    .map((event) => (event.kind === "error" ? "" : encoder.push(event)))
    .join("");
}

export class CompletionEncoder implements StreamEncoder {
  readonly #head: CompletionHead;
  #isText = false;

  constructor(head: CompletionHead) {
    this.#head = head;
  }

  push(event: ContentEvent): string {
    switch (event.kind) {
      case "block":
        this.#isText = isText(event.block.kind);
        return "";
      case "delta":
        return this.#isText ? this.#chunk([choice(event.text, null)]) : "";
      case "citation":
      case "signature":
      case "block-end":
        return "";
      case "finish": {
        const { usage } = event;
        const counted =
          this.#head.usageShown && usage !== undefined ? this.#chunk([], { usage: usageBodyOf(usage) }) : "";
        return `${this.#chunk([choice("", finishNameOf(event.finish))])}${counted}data: [DONE]\n\n`;
      }
      default:
        return event satisfies never;
    }
  }

  #chunk(choices: object[], more: object = this.#head.usageShown ? { usage: null } : {}): string {
    return `data: ${jsonOf({ ...common(this.#head), choices, ...more })}\n\n`;
  }
}

/** A completion as a chat completion, whose choices have this member. */
const chatOf = (body: JsonObject, member: "message" | "delta"): JsonObject =>
  Array.isArray(body.choices)
    ? { ...body, choices: body.choices.map(objectOf).map((one) => ({ ...one, [member]: textDeltaOf(one) })) }
    : body;

class CompletionDecoder extends ChatDecoder {
  protected override read(chunk: JsonObject): undefined {
    super.read(chatOf(chunk, "delta"));
  }
}

/** Reads an upstream's completion of one choice. */
export const completionReader: Pick<Codec, "streamDecoder" | "decodeAnswer"> = {
  streamDecoder: () => new CompletionDecoder(),
  decodeAnswer: (body) => decodeAnswer(chatOf(body, "message")),
};
