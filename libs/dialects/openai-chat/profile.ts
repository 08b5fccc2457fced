/** The profile of OpenAI's chat completions. */

import type { JsonObject } from "#wire/json/parse.ts";
import { storedFieldIn, storedFieldRule } from "../neutral/stored-fields.ts";
import { openaiProfile } from "../openai/profile.ts";
import { emptyLines, isCount, type Profile, storedFaultIn } from "../profile.ts";
import { chatRequestSchema } from "./schema.ts";

/** References in a chat completion's request to objects that a vendor would have stored. */
const rules = [
  storedFieldRule(
    "messages[].audio.id",
    "names a spoken answer that a vendor stores for all callers: send the transcript of that answer as the message's content",
  ),
  storedFieldRule(
    "messages[].content[].file.file_id",
    "names a stored file, which this gateway does not keep: send the file itself as file_data",
  ),
];

/** The first field that requires stored files or answers. */
const statefulFieldIn = (body: JsonObject) => storedFieldIn(body, rules);

export const openaiChatProfile: Profile = {
  ...openaiProfile,
  endpoints: {
    answer: [
      {
        path: "/v1/chat/completions",
        dialect: "openai-chat",
        schema: chatRequestSchema,
        faultOf: storedFaultIn(statefulFieldIn),
      },
    ],
  },
  ownsPath: (_versions, rest) =>
    /^\/(chat\/completions|completions|embeddings|images|audio|moderations|rerank|realtime)(\/|$)/.test(rest),
  requestedLengthOf: ({ max_completion_tokens, max_tokens, n, modalities }) => ({
    outputTokensMax: [max_completion_tokens, max_tokens].find(isCount),
    choices: isCount(n) ? n : 1,
    wantsMedia: Array.isArray(modalities) && modalities.some((modality) => String(modality).toLowerCase() !== "text"),
  }),
  conversation: { field: "messages", empty: [{ role: "user", content: "" }] },
  fetchesFiles: false,
  errorEventOf: (failure) => `data: ${openaiProfile.errorBodyOf(failure)}\n\n`,
  /**
   * Clients that know no error event, such as LangChain4j, would take the text so far for a whole
   * answer.
   */
  breaksAfterError: true,
  keepAlive: emptyLines,
};
