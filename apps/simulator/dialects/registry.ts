/** The dialects that the simulator speaks: to add one is a folder and a line here. */
import type { Dialect } from "./dialect.ts";
import { openaiChat } from "./openai-chat/dialect.ts";
import { openaiImages } from "./openai-images/dialect.ts";
import { openaiModels } from "./openai-models/dialect.ts";

export const dialects: readonly Dialect[] = [openaiChat, openaiImages, openaiModels];
