/** The profile of OpenAI's chat completions. */
import { openaiProfile } from "../openai/profile.ts";
import { emptyLines, isCount, type Profile, storedFaultIn } from "../profile.ts";
import { chatRequestSchema } from "./schema.ts";
import { statefulFieldIn } from "./stateless.ts";

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
  askedLengthOf: ({ max_completion_tokens, max_tokens, n, modalities }) => ({
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
