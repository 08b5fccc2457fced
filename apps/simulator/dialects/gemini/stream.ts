/**
 * The stream of content: a chunk for each visible token, as server-sent events or as one growing
 * JSON array.
 */
import { turnsOf } from "../../answer/turns.ts";
import type { Script } from "../dialect.ts";
import { geminiErrorBody } from "./error.ts";
import {
  type Candidate,
  type ContentAnswer,
  finishedOf,
  lengthOf,
  type Produced,
  partAt,
  partsOf,
  producedOf,
  promptBlocked,
  tailOf,
  textProofOf,
} from "./response.ts";

/** In an array, every chunk but the last is followed by a comma. */
const framings = {
  sse: {
    opening: "",
    chunk: (json: string) => `data: ${json}\n\n`,
    last: (json: string) => `data: ${json}\n\n`,
    contentType: "text/event-stream",
  },
  array: {
    opening: "[",
    chunk: (json: string) => `${json},\r\n`,
    last: (json: string) => `${json}]`,
    contentType: "application/json; charset=UTF-8",
  },
};

/** The candidates take turns, token by token. */
export function contentScriptOf(answer: ContentAnswer, framing: keyof typeof framings): Script {
  const { candidates, isPromptBlocked } = answer;
  const { opening, chunk, last, contentType } = framings[framing];
  const turns = turnsOf(candidates.map(lengthOf));
  const finished = candidates.map((candidate, index) => finishedOf(candidate, index, lastPartsOf(candidate)));
  return {
    kind: "events",
    contentType,
    opening,
    length: turns.length,
    eventAt(index) {
      const choice = turns.choiceAt(index);
      const token = turns.tokenAt(index);
      const part = partAt(candidates[choice] as Candidate, token);
      if (part === undefined) return "";
      const chunkBody = { candidates: [{ content: { role: "model", parts: [part] }, index: choice }] };
      return chunk(JSON.stringify({ ...chunkBody, ...tailOf(answer, producedBy(candidates, choice, token)) }));
    },
    closing: "",
    terminator: last(
      JSON.stringify({
        ...(isPromptBlocked ? promptBlocked : { candidates: finished }),
        ...tailOf(answer, producedOf(candidates)),
      }),
    ),
    errorEvent: (message, { opened }) => (opened ? "" : opening) + last(geminiErrorBody({ status: 500, message })),
  };
}

/**
 * An empty text, with the signature if there is one; none for an answer without visible content.
 */
const lastPartsOf = (candidate: Candidate): object[] =>
  partsOf(candidate).length === 0 ? [] : [{ text: "", ...textProofOf(candidate) }];

/** All tokens up to and including this one of this candidate, in order. */
function producedBy(candidates: Candidate[], choice: number, token: number): Produced {
  let thoughts = 0;
  let all = 0;
  for (const [index, candidate] of candidates.entries()) {
    const tokens = Math.min(lengthOf(candidate), index <= choice ? token + 1 : token);
    all += tokens;
    thoughts += Math.min(tokens, candidate.reasoning.length);
  }
  return { thoughts, shown: all - thoughts };
}
