/** The largest and oddest requests that the default limits admit, in every dialect. */
import type { ConversationDialect } from "#dialects/dialect.ts";
import { words } from "../e2e/bad-input/raw.ts";
import { pngBase64 as png } from "./png.ts";

/**
 * Containers, members and values that a body may hold (apps/ingress/request/body.ts), with some
 * room for what surrounds them.
 */
const containers = 99_000;
const members = 199_000;
const values = 990_000;
/** Bytes of the longest texts: some less than a body may have. */
export const textBytesMax = 31 << 20;

const list = (count: number, of: (place: number) => string) =>
  Array.from({ length: Math.floor(count) }, (_, place) => of(place)).join(",");
const same = (count: number, text: string) => new Array<string>(Math.floor(count)).fill(text).join(",");

export interface Shape {
  name: string;
  /** Caller and upstream where it matters, for who asks it once. */
  pair?: readonly [from: ConversationDialect, to: ConversationDialect];
  /** Undefined where a dialect has no words for it. */
  body(dialect: ConversationDialect, model: string): string | undefined;
}

const asks = (
  name: string,
  more: string | (() => string),
  parts?: (dialect: ConversationDialect) => string,
): Shape => ({
  name,
  body: (dialect, model) =>
    words[dialect].ask(model, parts?.(dialect) ?? words[dialect].text("x"), typeof more === "string" ? more : more()),
});
const says = (name: string, text: () => string): Shape => ({
  name,
  body: (dialect, model) => words[dialect].ask(model, words[dialect].text(text())),
});
const forms = (name: string, form: (dialect: ConversationDialect) => string): Shape => ({
  name,
  body: (dialect, model) => words[dialect].ask(model, words[dialect].text("x"), form(dialect)),
});

const callsOf: Record<ConversationDialect, number> = {
  "openai-chat": 24_500,
  "openai-responses": 28_000,
  "anthropic-messages": 28_000,
  gemini: 16_400,
};
const callTurnsOf: Record<ConversationDialect, number> = {
  "openai-chat": 19_000,
  "openai-responses": 19_000,
  "anthropic-messages": 11_000,
  gemini: 8_500,
};
const picturesOf: Record<ConversationDialect, number> = {
  "openai-chat": 39_000,
  "openai-responses": 95_000,
  "anthropic-messages": 39_000,
  gemini: 49_000,
};
const partsMax = 98_000;
const messagesOf = (dialect: ConversationDialect) => (dialect === "gemini" ? 32_000 : 98_000);

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
    return `${before}${list(callTurnsOf[dialect], (place) => call.replaceAll("@", `c${place}`))}${after}`;
  },
};

const address: Record<ConversationDialect, string> = {
  "openai-chat": '{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}',
  "openai-responses": '{"type":"input_image","image_url":"https://example.com/a.png"}',
  "anthropic-messages": '{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}',
  gemini: '{"fileData":{"fileUri":"https://example.com/a.png"}}',
};

/** One call whose arguments are a text of their own, where a dialect has them so. */
const calledWith = (name: string, input: () => string): Shape => ({
  name,
  pair: ["openai-chat", "anthropic-messages"],
  body: (dialect, model) =>
    dialect === "openai-chat" || dialect === "openai-responses"
      ? words[dialect].calls(model, ["a"], ["a"]).replace('"arguments":"{}"', () => `"arguments":"${input()}"`)
      : undefined,
});

const object = (count: number, of: (place: number) => string) => `{${list(count, (place) => `"${of(place)}":0`)}}`;
const nested = (depth: number) => `${'{"a":['.repeat(depth / 2)}1${"]}".repeat(depth / 2)}`;

/** `bytes` is how long texts are. */
export const shapesOf = (bytes: number): Shape[] => [
  asks("distinct keys, unknown field", () => `,"x":${object(members, (place) => `k${place}`)}`),
  asks("distinct long keys", () => `,"x":${object(members, (place) => `${place}${"k".repeat(140)}`)}`),
  asks("colliding integer keys", () => `,"x":${object(members, (place) => String(place * 65_536))}`),
  asks("deep nesting, often", () => `,"x":[${same(495, nested(190))}]`),
  asks("empty arrays", () => `,"x":[${same(containers, "[]")}]`),
  asks("empty objects", () => `,"x":[${same(containers, "{}")}]`),
  asks("many numbers", () => `,"x":[${same(values, "1")}]`),
  asks("long numbers", () => `,"x":[${same(200_000, `1${"0".repeat(140)}`)}]`),
  asks("one long number", () => `,"x":${"9".repeat(bytes)}`),
  asks("numbers that a double can't hold", () => `,"x":[${same(values, "12345678901234567890123")}]`),
  asks("many short strings", () => `,"x":[${same(values, '"abcdefgh"')}]`),
  says("escapes", () => "\\n".repeat(bytes / 2)),
  says("escaped quotes", () => '\\"'.repeat(bytes / 2)),
  says("lone surrogates", () => "\\ud800".repeat(bytes / 6)),
  says("characters of four bytes", () => "😀".repeat(bytes / 4)),
  says("line separators", () => "\u2028".repeat(bytes / 3)),
  says("a long text", () => "lorem ipsum ".repeat(bytes / 12)),
  says("white space", () => " ".repeat(bytes)),
  says("one word", () => "a".repeat(bytes)),
  {
    name: "many messages",
    body: (dialect, model) =>
      words[dialect].turns(
        model,
        Array.from(
          { length: messagesOf(dialect) },
          (_, place) => [place % 2 === 0 ? "user" : "assistant", "x"] as const,
        ),
      ),
  },
  {
    name: "many messages of one role",
    body: (dialect, model) =>
      words[dialect].turns(
        model,
        Array.from({ length: messagesOf(dialect) }, () => ["user", "x"] as const),
      ),
  },
  asks("many parts", "", (dialect) => same(partsMax, words[dialect].text("x"))),
  asks("many pictures", "", (dialect) => same(picturesOf[dialect], words[dialect].image("image/png", png))),
  asks("one large picture", "", (dialect) =>
    words[dialect].image("image/png", png.slice(0, 88) + "A".repeat(bytes - 88 - ((bytes - 88) % 4))),
  ),
  asks(
    "a large text document",
    "",
    (dialect) => `${words[dialect].document("text/plain", "QUJD".repeat(bytes / 4))},${words[dialect].text("x")}`,
  ),
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
      `{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{${list(32_000, (place) => `"d${place}":{"anyOf":[{"$ref":"#/$defs/d${(place * 7) % 32_000}"}]}`)}}}`,
    ),
  ),
  forms("a tool with many properties", (dialect) =>
    words[dialect].tools(
      ["f"],
      `{"type":"object","properties":{${list(60_000, (place) => `"p${place}":{"type":"string","minLength":1}`)}}}`,
    ),
  ),
  forms("a schema, deep", (dialect) =>
    words[dialect].tools(["f"], `${'{"type":"object","properties":{"a":'.repeat(95)}{}${"}}".repeat(95)}`),
  ),
  forms("many alternatives", (dialect) =>
    words[dialect].tools(["f"], `{"anyOf":[${same(80_000, '{"type":"string"}')}],"type":"object"}`),
  ),
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
  {
    name: "deep names of addresses",
    pair: ["openai-responses", "openai-responses"],
    body: (dialect, model) => {
      const name = {
        "openai-chat": "image_url",
        "openai-responses": "image_url",
        "anthropic-messages": "url",
        gemini: "fileUri",
      }[dialect];
      return words[dialect].ask(
        model,
        words[dialect].text("x"),
        `,"x":${'{"level":'.repeat(190)}[${same(95_000, `{"${name}":"x"}`)}]${"}".repeat(190)}`,
      );
    },
  },
  asks("as many addresses as there may be", "", (dialect) => same(4_000, address[dialect])),
  asks("more addresses than there may be", "", (dialect) => same(40_000, address[dialect])),
  calledWith("arguments with many members", () => `{${list(bytes / 18, (place) => `\\"k${place}\\":1`)}}`),
  calledWith("arguments with many objects", () => `{\\"a\\":[${same(bytes / 4, "{}")}]}`),
  calledWith("deep arguments", () => `{\\"a\\":${"[".repeat(bytes / 4)}${"]".repeat(bytes / 4)}}`),
  asks("names in snake case", () => `,"x":${object(190_000, (place) => `abc_def_${place}`)}`),
  asks("bodies of a hundred kilobytes: distinct keys", () => `,"x":${object(11_000, (place) => `k${place}`)}`),
  asks("bodies of a hundred kilobytes: empty objects", () => `,"x":[${same(40_000, "{}")}]`),
  asks("bodies of a hundred kilobytes: parts", "", (dialect) => same(3_500, words[dialect].text("x"))),
  says("bodies of a hundred kilobytes: lone surrogates", () => "\\ud800".repeat(20_000)),
  asks(
    "bodies of a hundred kilobytes: numbers that a double can't hold",
    () => `,"x":[${same(5_000, "12345678901234567890123")}]`,
  ),
];

/** Similar to others; included only in long runs. */
const further = new Set([
  "colliding integer keys",
  "one long number",
  "many short strings",
  "escapes",
  "characters of four bytes",
  "a long text",
  "white space",
  "one word",
  "many messages of one role",
  "one large picture",
  "calls of one id",
  "calls whose ids become one",
  "many tools",
  "too many tools",
  "a schema, deep",
  "a tool with many properties",
  "many alternatives",
  "as many addresses as there may be",
  "arguments with many objects",
  "bodies of a hundred kilobytes: lone surrogates",
  "bodies of a hundred kilobytes: numbers that a double can't hold",
  "deep nesting, often",
  "long numbers",
  "a large text document",
  "calls whose ids look like numbered ones",
  "a schema with a huge enum",
  "many stop words",
]);

/** The shapes that differ most, with short texts. */
export const briefShapes = (): Shape[] => shapesOf(1 << 20).filter(({ name }) => !further.has(name));
