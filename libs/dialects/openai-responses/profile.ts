/** The profile of OpenAI's Responses. */
import type { JsonObject } from "#wire/json/parse.ts";
import type { Failure } from "../errors.ts";
import { openaiErrorOf, openaiProfile } from "../openai/profile.ts";
import { type Endpoint, isCount, type Profile, storedFaultIn } from "../profile.ts";
import { responseIdOf } from "./answer.ts";
import { responsesRequestSchema } from "./schema.ts";
import { statefulFieldIn } from "./stateless.ts";
import { noReferences, storedReferencesIn } from "./stored-references.ts";

const endpoint = {
  dialect: "openai-responses",
  schema: responsesRequestSchema,
  faultOf: (body: JsonObject) => storedFaultIn(statefulFieldIn)(body) ?? twoHistoriesFaultIn(body),
  referencesIn: storedReferencesIn,
} as const;

function twoHistoriesFaultIn(body: JsonObject): Failure | undefined {
  const { responseId, conversationId } = storedReferencesIn(body) ?? {};
  return responseId === undefined || conversationId === undefined
    ? undefined
    : {
        code: "invalid_request",
        message: "'previous_response_id' can't be used together with 'conversation'.",
        param: "previous_response_id",
      };
}

/** For POST requests and for WebSockets. */
export const responsesEndpoint = { ...endpoint, path: "/v1/responses" } satisfies Endpoint;

/** An endpoint whose requests are always answered at once. */
const immediate = {
  ...endpoint,
  faultOf: (body: JsonObject) => (body.background === true ? noBackground : endpoint.faultOf(body)),
} as const;

const noBackground: Failure = {
  code: "invalid_request",
  message: "'background' is supported only by POST /v1/responses.",
  param: "background",
};

/** Answers with a compaction item, which replaces the conversation. */
export const compactEndpoint = {
  ...immediate,
  path: "/v1/responses/compact",
  referencesIn: (body) => storedReferencesIn(body) ?? noReferences,
} satisfies Endpoint;

export const openaiResponsesProfile: Profile = {
  ...openaiProfile,
  endpoints: {
    answer: [responsesEndpoint, compactEndpoint],
    "token-count": [{ ...immediate, path: "/v1/responses/input_tokens" }],
  },
  ownsPath: (_versions, rest) => /^\/(responses|conversations)(\/|$)/.test(rest),
  requestedLengthOf: ({ max_output_tokens }) => ({
    outputTokensMax: isCount(max_output_tokens) ? max_output_tokens : undefined,
    choices: 1,
    wantsMedia: false,
  }),
  conversation: { field: "input", empty: [] },
  fetchesFiles: true,
  errorEventOf(failure, { requestId, model, events }) {
    // Clients differ in reading the first or the second event, and in reading the first one's
    // fields or its `error`: https://platform.openai.com/docs/api-reference/responses-streaming
    const { message, type, param, code: ownCode } = openaiErrorOf(failure);
    const code = ownCode ?? type;
    const error = {
      type: "error",
      sequence_number: events,
      code,
      message,
      param,
      error: { type, code, message, param },
    };
    const response = {
      id: responseIdOf({ id: requestId.replace(/^[a-z]+_/, "") }),
      object: "response",
      created_at: Math.floor(Date.now() / 1_000),
      status: "failed",
      error: { code, message },
      incomplete_details: null,
      model,
      output: [],
      store: false,
    };
    return `event: error\ndata: ${JSON.stringify(error)}\n\nevent: response.failed\ndata: ${JSON.stringify({ type: "response.failed", sequence_number: events + 1, response })}\n\n`;
  },
  keepAlive: 'event: keepalive\ndata: {"type":"keepalive"}\n\n',
};
