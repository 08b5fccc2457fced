/** Compacts a conversation into a shorter form that its upstream can read: https://platform.openai.com/docs/api-reference/responses/compact */
import { conversationOperation } from "../conversation-operation.ts";

export const compaction = conversationOperation("compaction", "input and output");
