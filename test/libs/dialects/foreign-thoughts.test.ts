/**
 * Conversations with other vendors' reasoning, sent to an upstream of the caller's own format: all
 * other bytes stay unchanged.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { wrappedSignatureOf } from "#dialects/neutral/wrapped-signature.ts";
import { targetOf } from "../../support/target.ts";

const sent = (dialect: ConversationDialect, text: string) =>
  codecs[dialect].verbatim.request(Buffer.from(text), "whole", targetOf(dialect, "gemini-2.5-theirs"))?.body.toString();

/** Values that are not the same once they were parsed and written again. */
const odd = '{ "a":1e400, "b" : 12345678901234567890,"c":-0,"d":1.0,\t"e":"\\u00e9\\/", "a":2 }';
const foreignOf = (dialect: ConversationDialect) =>
  wrappedSignatureOf({ dialect: dialect === "gemini" ? "openai-chat" : "gemini", data: "x" });
const ownOf = (dialect: ConversationDialect) =>
  wrappedSignatureOf({ dialect, data: "OWN", ...(dialect === "openai-responses" && { itemId: "rs_own" }) });

interface Conversation {
  text: string;
  expected: string;
}

const conversations: Record<ConversationDialect, () => Conversation> = {
  "openai-chat"() {
    const foreign = `{"type":"reasoning.encrypted","data":"${foreignOf("openai-chat")}"}`;
    const kept = `{"type":"reasoning.text","text":"mine","x":${odd}}`;
    const messages = (details: [string, string]) =>
      `[ {"role":"user","content":"hi","x":${odd}} , {"role":"assistant",${details[0]}"content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"},"x":${odd}}]}, {"role":"tool","content":"r"${details[1]},"x":${odd}} ]`;
    return {
      text: `{"model":"m","messages":${messages([`"reasoning_details": [${foreign},${kept},${foreign}], `, `,"reasoning_details":[${foreign}]`])},"seed":12345678901234567890}`,
      expected: `{"model":"gemini-2.5-theirs","messages":${messages([`"reasoning_details": [${kept}], `, ""])},"seed":12345678901234567890}`,
    };
  },
  "openai-responses"() {
    const foreign = `{"type":"reasoning","id":"rs_foreign_1","summary":[],"encrypted_content":"${foreignOf("openai-responses")}"}`;
    const own = (id: string, data: string) =>
      `{"type":"reasoning", "id":"${id}","x":${odd}, "encrypted_content" : "${data}"}`;
    const item = `{"role":"user","content":"hi","x":${odd}}`;
    return {
      text: `{"model":"m","input":[${foreign},${item} , ${own("rs_ours", ownOf("openai-responses"))},${foreign}] ,"store":false}`,
      expected: `{"model":"gemini-2.5-theirs","input":[${item} , ${own("rs_own", "OWN")}] ,"store":false}`,
    };
  },
  "anthropic-messages"() {
    const thinking = (signature: string) => `{"type":"thinking","thinking":"t","signature":"${signature}"}`;
    const foreign = thinking(foreignOf("anthropic-messages"));
    const call = `{"type":"tool_use","id":"c","name":"f","input":${odd}}`;
    const user = `{"role":"user", "content":[{"type":"text","text":"hi"}],"x":${odd}}`;
    return {
      text: `{"model":"m","messages":[ ${user}, {"role":"assistant","content":[${foreign},${call} ,${thinking(ownOf("anthropic-messages"))},${thinking("")}]} ,{"role":"assistant","content":[${foreign}]},${user}],"top_k":12345678901234567890}`,
      expected: `{"model":"gemini-2.5-theirs","messages":[ ${user}, {"role":"assistant","content":[${call} ,${thinking("OWN")}]} ,${user}],"top_k":12345678901234567890}`,
    };
  },
  gemini() {
    const foreign = foreignOf("gemini");
    const call = (more: string) => `{ "functionCall":{"name":"f","args":${odd}}${more}}`;
    const user = `{"role":"user","parts":[{"text":"hi"}],"x":${odd}}`;
    return {
      text: `{"contents":[${user} , {"parts":[${call(`,"thoughtSignature":"${foreign}"`)},{"text":"","thoughtSignature":"${foreign}"},${call(`,"thought_signature":"${ownOf("gemini")}"`)}],"role":"model"},{"parts":[{"text":"","thoughtSignature":"${foreign}"}]}],"x":12345678901234567890}`,
      expected: `{"contents":[${user} , {"parts":[${call("")},${call(',"thought_signature":"OWN"')}],"role":"model"}],"x":12345678901234567890}`,
    };
  },
};

test("reasoning of another vendor is removed, and this vendor's is unwrapped, without changing any other byte", () => {
  for (const dialect of conversationDialects) {
    const { text, expected } = conversations[dialect]();
    assert.equal(sent(dialect, text), expected, dialect);
  }
});

test("a single content or part may replace a list of one in Google's format", () => {
  const part = `{"text":"a","thoughtSignature":"${foreignOf("gemini")}","x":${odd}}`;
  assert.equal(
    sent("gemini", `{"contents": {"parts": ${part}} }`),
    `{"contents": {"parts": {"text":"a","x":${odd}}} }`,
  );
});
