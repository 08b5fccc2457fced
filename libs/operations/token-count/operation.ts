/** Counts the tokens of a prompt, in the dialects that have an endpoint for it. */
import { conversationOperation } from "../conversation-operation.ts";

export const tokenCount = conversationOperation("token-count", "nothing");
