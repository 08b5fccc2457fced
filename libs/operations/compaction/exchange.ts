/** The result of a compaction is opaque, so only an upstream of the caller's dialect serves it. */
import { codecs } from "#dialects/codecs.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { ownBytesOf } from "../conversation.ts";
import { type CallExchange, refusedFor } from "../exchange.ts";

interface Context {
  dialect: ConversationDialect;
  model: string;
}

export const compactionExchange: CallExchange<Context> = {
  wantedOf: (dialect) => dialect,
  async prepare(task, resolve) {
    const { dialect, spoken, model, target } = task;
    const { compaction } = codecs[dialect].verbatim;
    if (spoken !== dialect || compaction === undefined)
      return refusedFor("compaction: its upstream does not speak openai-responses");
    const request = compaction(await ownBytesOf(task, resolve), target.model);
    const context: Context = { dialect, model };
    return request === undefined
      ? refusedFor("requests without a model")
      : { kind: "call", request, context, errors: "own" };
  },
  read: ({ dialect, model }, bytes) => codecs[dialect].verbatim.answer(bytes, model),
};
