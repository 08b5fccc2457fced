/**
 * The stream of content: a chunk for each visible token, as server-sent events or as one growing
 * JSON array.
 */
import { inTurns } from "../../answer/turns.ts";
import type { Script } from "../dialect.ts";
import { geminiErrorBody } from "./error.ts";
import {
  type Candidate,
  type ContentAnswer,
  finishedOf,
  lengthOf,
  partsOf,
  producedOf,
  promptBlocked,
  tailOf,
  textProofOf,
  tokenPartsOf,
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
  const produced = { thoughts: 0, shown: 0 };
  const finished = candidates.map((candidate, index) => finishedOf(candidate, index, lastPartsOf(candidate)));
  function* events(): Generator<string, string> {
    for (const { choice: index, token: part } of inTurns(candidates.map((each) => tokenPartsOf(each, produced)))) {
      const chunkBody = { candidates: [{ content: { role: "model", parts: [part] }, index }] };
      yield part === undefined ? "" : chunk(JSON.stringify({ ...chunkBody, ...tailOf(answer, produced) }));
    }
    return "";
  }
  return {
    kind: "events",
    contentType,
    opening,
    length: candidates.reduce((sum, candidate) => sum + lengthOf(candidate), 0),
    events: events(),
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
