/** Counts tokens with the upstream if it has an endpoint for it, otherwise estimates them. */
import { codecs } from "#dialects/codecs.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { consistent } from "#dialects/neutral/consistent.ts";
import { Refusal } from "#dialects/neutral/field-support.ts";
import { repairedBytes, repairedRequest, repairedTarget } from "#dialects/relay/repaired.ts";
import { type JsonObject, jsonBytesOf, parsedObject, parseJson } from "#wire/json/parse.ts";
import { isConversation, ownBytesOf, readableRequestOf, resolveIn } from "../conversation.ts";
import {
  type CallExchange,
  estimatedHeader,
  ownCall,
  type PreparationTask,
  type Prepared,
  type ResolveAddresses,
  refusedFor,
} from "../exchange.ts";
import { estimatedTokensOf } from "../token-estimate.ts";

/** The dialects of the caller and of the upstream. */
interface Context {
  from: ConversationDialect;
  to: ConversationDialect;
}

export const tokenCountExchange: CallExchange<Context> = {
  wantedOf: (dialect) => dialect,
  canEstimate: true,
  isEstimated: ({ countsTokens, spoken }) =>
    isConversation(spoken) && (!countsTokens || codecs[spoken].tokenCount === undefined),
  prepare,
  read({ from, to }, bytes) {
    const tokens = codecs[to].tokenCount?.countIn(parsedObject(bytes) ?? {});
    const text = tokens === undefined ? undefined : codecs[from].tokenCount?.answerOf(tokens);
    return text === undefined ? { kind: "malformed" } : { kind: "answer", body: Buffer.from(text), usage: undefined };
  },
};

async function prepare(task: PreparationTask, resolve: ResolveAddresses): Promise<Prepared> {
  const { dialect, spoken, body, headers, target: named, countsTokens, repairs = [] } = task;
  const target = repairedTarget(named, repairs);
  const from = codecs[dialect];
  if (!isConversation(spoken) || from.tokenCount === undefined) return refusedFor("token counts");
  const to = codecs[spoken];
  const { conversationOf, prefixOf, answerOf } = from.tokenCount;
  const callerBody = parseJson(body) as JsonObject;
  const conversation = conversationOf(callerBody);
  const within = prefixOf?.(callerBody) ?? "";
  const decoded =
    spoken === dialect
      ? undefined
      : await prefixed(within, () => consistent(from.decodeRequest({ body: conversation, framing: "whole", headers })));
  const request = decoded && repairedRequest(decoded, repairs, spoken);
  const counting = to.tokenCount;
  if (counting === undefined || !countsTokens) {
    const tokens = await estimatedTokensOf(request ?? readableRequestOf(from, conversation, "whole"));
    return {
      kind: "answered",
      body: Buffer.from(answerOf(tokens)),
      contentType: "application/json",
      headers: estimatedHeader,
    };
  }
  const context: Context = { from: dialect, to: spoken };
  if (request === undefined) {
    const bytes = await ownBytesOf(task, resolve);
    const sent = bytes === body ? conversation : conversationOf(parsedObject(bytes) ?? {});
    const repaired =
      repairs.length === 0
        ? sent
        : parsedObject(
            repairedBytes(from, dialect, { body: jsonBytesOf(sent), framing: "whole", headers }, named, repairs),
          );
    return ownCall(counting.requestOf(repaired ?? sent, target), context);
  }
  const question = await prefixed(within, async () => {
    await resolveIn(request, resolve);
    return counting.requestOf(parsedObject(to.encodeRequest(request, "whole", target).body) ?? {}, target);
  });
  return { kind: "call", request: question, context, errors: "foreign", decoded: request };
}

/** Prefixes the field of a Refusal with its path in the whole body. */
async function prefixed<Result>(prefix: string, act: () => Result | Promise<Result>): Promise<Result> {
  try {
    return await act();
  } catch (error) {
    if (!(error instanceof Refusal) || prefix === "") throw error;
    throw new Refusal(
      `${prefix}${error.param}`,
      error.message.startsWith(error.param) ? `${prefix}${error.message}` : error.message,
    );
  }
}
