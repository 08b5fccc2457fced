/** A model's answer to a conversation, in each dialect. */
import { conversationOperation } from "../conversation-operation.ts";

export const answer = conversationOperation("answer", "input and output");
