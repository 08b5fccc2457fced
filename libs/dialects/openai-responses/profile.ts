/** The profile of OpenAI's Responses. */
import { openaiErrorOf, openaiProfile } from "../openai-profile.ts";
import { type Endpoint, isCount, type Profile, storedFaultIn } from "../profile.ts";
import { responsesRequestSchema } from "./schema.ts";
import { statefulFieldIn } from "./stateless.ts";

const endpoint = {
  dialect: "openai-responses",
  schema: responsesRequestSchema,
  faultOf: storedFaultIn(statefulFieldIn),
} as const;

/** For POST requests and for WebSockets. */
export const responsesEndpoint = { ...endpoint, path: "/v1/responses" } satisfies Endpoint;

export const openaiResponsesProfile: Profile = {
  ...openaiProfile,
  endpoints: {
    answer: [responsesEndpoint],
    compaction: [{ ...endpoint, path: "/v1/responses/compact" }],
    "token-count": [{ ...endpoint, path: "/v1/responses/input_tokens" }],
  },
  ownsPath: (_versions, rest) => /^\/responses(\/|$)/.test(rest),
  askedLengthOf: ({ max_output_tokens }) => ({
    outputTokensMax: isCount(max_output_tokens) ? max_output_tokens : undefined,
    choices: 1,
    wantsMedia: false,
  }),
  conversation: { field: "input", empty: [] },
  fetchesFiles: true,
  errorEventOf(failure, { requestId, answerId, model, events }) {
    // Clients differ in reading the first or the second event, and in reading the first one's fields or its `error`:
    // https://platform.openai.com/docs/api-reference/responses-streaming
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
      id: answerId ?? `resp_${requestId.replace(/^[a-z]+_/, "")}`,
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
