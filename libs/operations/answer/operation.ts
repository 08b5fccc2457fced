/** A model's answer to a conversation, in each dialect. */
import { conversationOperation } from "../conversation-operation.ts";
import type { Operation } from "../operation.ts";

export const answer: Operation = {
  ...conversationOperation("answer", "input and output"),
  cachesPrompts: true,
  reportsProgress: true,
};
