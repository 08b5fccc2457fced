/** Requests that are as large or as odd as the default limits admit, in the words of every dialect. */
import type { ConversationDialect } from "#wire/dialect.ts";
import { words } from "../e2e/bad-input/raw.ts";

/** Containers, members and values that a body may hold (apps/ingress/body.ts), with some room for what surrounds them. */
const containers = 99_000;
const members = 199_000;
const values = 990_000;
const bytes = 31 << 20;

const list = (count: number, of: (place: number) => string) => Array.from({ length: count }, (_, place) => of(place)).join(",");
const same = (count: number, text: string) => new Array<string>(count).fill(text).join(",");

export interface Shape {
  name: string;
  /** Undefined where a dialect has no words for it. */
  body(dialect: ConversationDialect, model: string): string | undefined;
}

const asks = (name: string, more: string | (() => string), parts?: (dialect: ConversationDialect) => string): Shape => ({
  name,
  body: (dialect, model) => words[dialect].ask(model, parts?.(dialect) ?? words[dialect].text("x"), typeof more === "string" ? more : more()),
});
const says = (name: string, text: () => string): Shape => ({ name, body: (dialect, model) => words[dialect].ask(model, words[dialect].text(text())) });
const forms = (name: string, form: (dialect: ConversationDialect) => string): Shape => ({
  name,
  body: (dialect, model) => words[dialect].ask(model, words[dialect].text("x"), form(dialect)),
});

const callsOf: Record<ConversationDialect, number> = { "openai-chat": 33_000, "openai-responses": 49_000, "anthropic-messages": 33_000, gemini: 19_000 };
const partsOf: Record<ConversationDialect, number> = { "openai-chat": 98_000, "openai-responses": 98_000, "anthropic-messages": 98_000, gemini: 98_000 };
const picturesOf: Record<ConversationDialect, number> = { "openai-chat": 49_000, "openai-responses": 98_000, "anthropic-messages": 49_000, gemini: 49_000 };
const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

const calls = (name: string, id: (place: number, count: number) => string): Shape => ({
  name,
  body: (dialect, model) => {
    const ids = Array.from({ length: callsOf[dialect] }, (_, place) => id(place, callsOf[dialect]));
    return words[dialect].calls(model, ids, ids);
  },
});

/** Turns of one call and its result each. */
const callTurns: Shape = {
  name: "many turns of one call",
  body: (dialect, model) => {
    const count = callsOf[dialect] * 0.6;
    const head = words[dialect].calls(model, ["@"], ["@"]);
    const [before = "", call = "", after = ""] = {
      "openai-chat": ['{"role":"assistant"', ',{"role":"user","content":"y"}'],
      "openai-responses": ['{"type":"function_call"', ',{"role":"user","content":"y"}'],
      "anthropic-messages": ['{"role":"assistant"', "]}"],
      gemini: ['{"role":"model"', "]}"],
    }[dialect].reduce<string[]>(
      (parts, mark, place) => {
        const rest = parts.at(-1) as string;
        const at = place === 0 ? rest.indexOf(mark) : rest.lastIndexOf(mark);
        return [...parts.slice(0, -1), rest.slice(0, at), rest.slice(at)];
      },
      [head],
    );
    return `${before}${list(Math.floor(count), (place) => call.replaceAll("@", `c${place}`))}${after}`;
  },
};

const object = (count: number, of: (place: number) => string) => `{${list(count, (place) => `"${of(place)}":0`)}}`;
const nested = (depth: number) => `${'{"a":['.repeat(depth / 2)}1${"]}".repeat(depth / 2)}`;

export const shapes: Shape[] = [
  asks("distinct keys, unknown field", () => `,"x":${object(members, (place) => `k${place}`)}`),
  asks("distinct long keys", () => `,"x":${object(members, (place) => `${place}${"k".repeat(140)}`)}`),
  asks("integer keys", () => `,"x":${object(members, (place) => String(place * 7919))}`),
  asks("colliding integer keys", () => `,"x":${object(members, (place) => String(place * 65_536))}`),
  asks("deep nesting, often", () => `,"x":[${same(495, nested(190))}]`),
  asks("empty arrays", () => `,"x":[${same(containers, "[]")}]`),
  asks("empty objects", () => `,"x":[${same(containers, "{}")}]`),
  asks("many numbers", () => `,"x":[${same(values, "1")}]`),
  asks("long numbers", () => `,"x":[${same(200_000, `1${"0".repeat(140)}`)}]`),
  asks("one number of 30 MB", () => `,"x":${"9".repeat(bytes)}`),
  asks("numbers that a double can't hold", () => `,"x":[${same(values, "12345678901234567890123")}]`),
  asks("many short strings", () => `,"x":[${same(values, '"abcdefgh"')}]`),
  says("escapes", () => "\\n".repeat(bytes / 2)),
  says("escaped quotes", () => '\\"'.repeat(bytes / 2)),
  says("lone surrogates", () => "\\ud800".repeat(bytes / 6)),
  says("characters of four bytes", () => "😀".repeat(bytes / 4)),
  says("line separators", () => "\u2028".repeat(bytes / 3)),
  says("a text of 31 MB", () => "lorem ipsum ".repeat(bytes / 12)),
  says("white space", () => " ".repeat(bytes)),
  says("one word", () => "a".repeat(bytes)),
  {
    name: "many messages",
    body: (dialect, model) =>
      words[dialect].turns(
        model,
        Array.from({ length: dialect === "gemini" ? 32_000 : 98_000 }, (_, place) => [place % 2 === 0 ? "user" : "assistant", "x"] as const),
      ),
  },
  {
    name: "many messages of one role",
    body: (dialect, model) =>
      words[dialect].turns(
        model,
        Array.from({ length: dialect === "gemini" ? 32_000 : 98_000 }, () => ["user", "x"] as const),
      ),
  },
  asks("many parts", "", (dialect) => same(partsOf[dialect], words[dialect].text("x"))),
  asks("many pictures", "", (dialect) => same(picturesOf[dialect], words[dialect].image("image/png", png))),
  asks("one picture of 30 MB", "", (dialect) => words[dialect].image("image/png", png.slice(0, 88) + "A".repeat(bytes - 88 - ((bytes - 88) % 4)))),
  asks("a text document of 30 MB", "", (dialect) => `${words[dialect].document("text/plain", "QUJD".repeat(bytes / 4))},${words[dialect].text("x")}`),
  calls("calls with ids of their own", (place) => `call_${place}`),
  calls("calls of one id", () => "same"),
  calls("calls whose ids look like numbered ones", (place, count) => (place < count / 2 ? `a_${place + 2}` : "a")),
  calls("calls whose ids become one", (place) => `a${"!?#$%&()*"[place % 9]}${"!?#$%&()*"[Math.floor(place / 9) % 9]}`),
  callTurns,
  forms("many tools", (dialect) =>
    words[dialect].tools(
      Array.from({ length: 4_096 }, (_, place) => `tool_${place}`),
      '{"type":"object"}',
    ),
  ),
  forms("too many tools", (dialect) => words[dialect].tools(new Array<string>(24_000).fill("f"), "{}")),
  forms("many tools of one name, large schemas", (dialect) =>
    words[dialect].tools(
      new Array<string>(4_096).fill("f"),
      `{"type":"object","properties":{"a":{"type":"string","description":"${"d".repeat(6_000)}"},"b":{"type":"array","items":{"type":"integer"}}}}`,
    ),
  ),
  forms("a schema with a huge enum", (dialect) =>
    words[dialect].format(`{"type":"object","properties":{"a":{"enum":[${list(values, (place) => `"${place}"`)}]}}}`),
  ),
  forms("a schema with many properties", (dialect) =>
    words[dialect].format(
      `{"type":"object","additionalProperties":false,"required":[${list(90_000, (place) => `"p${place}"`)}],"properties":{${list(90_000, (place) => `"p${place}":{"type":"string"}`)}}}`,
    ),
  ),
  forms("a schema of many references", (dialect) =>
    words[dialect].tools(
      ["f"],
      `{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{${list(45_000, (place) => `"d${place}":{"anyOf":[{"$ref":"#/$defs/d${(place * 7) % 45_000}"}]}`)}}}`,
    ),
  ),
  forms("a tool with many properties", (dialect) =>
    words[dialect].tools(["f"], `{"type":"object","properties":{${list(90_000, (place) => `"p${place}":{"type":"string","minLength":1}`)}}}`),
  ),
  forms("a schema, deep", (dialect) => words[dialect].tools(["f"], `${'{"type":"object","properties":{"a":'.repeat(95)}{}${"}}".repeat(95)}`)),
  forms("many alternatives", (dialect) => words[dialect].tools(["f"], `{"anyOf":[${same(80_000, '{"type":"string"}')}],"type":"object"}`)),
  {
    name: "many stop words",
    body: (dialect, model) => {
      const stops = `[${list(values, (place) => `"s${place}"`)}]`;
      const field = {
        "openai-chat": `,"stop":${stops}`,
        "openai-responses": undefined,
        "anthropic-messages": `,"stop_sequences":${stops}`,
        gemini: `,"generationConfig":{"stopSequences":${stops}}`,
      }[dialect];
      return field === undefined ? undefined : words[dialect].ask(model, words[dialect].text("x"), field);
    },
  },
  {
    name: "huge metadata",
    body: (dialect, model) => {
      const many = `{${list(members, (place) => `"m${place}":"v"`)}}`;
      const field = {
        "openai-chat": `,"metadata":${many}`,
        "openai-responses": `,"metadata":${many}`,
        "anthropic-messages": `,"metadata":${many}`,
        gemini: `,"labels":${many}`,
      }[dialect];
      return words[dialect].ask(model, words[dialect].text("x"), field);
    },
  },
];
