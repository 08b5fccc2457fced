/**
 * Sessions over a WebSocket: OpenAI's Realtime (https://platform.openai.com/docs/guides/realtime)
 * and Gemini's Live (https://ai.google.dev/api/live). They have no POST endpoint.
 */
import { plainDemandOf } from "../demand.ts";
import type { Operation } from "../operation.ts";

export const realtimePath = "/v1/realtime";
/**
 * Where the first message of a transcription session names its model, which is not in the address:
 * https://developers.openai.com/api/docs/guides/realtime-transcription
 */
export const transcriptionModelPath = ["session", "audio", "input", "transcription", "model"] as const;
export const livePath = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent";

export const realtime: Operation = {
  endpoints: [],
  bills: "input and output",
  isRepeatable: true,
  reportsProgress: true,
  isSession: true,
  demandOf: () => plainDemandOf(),
};
