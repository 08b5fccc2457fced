import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  elementSpansOf,
  memberSpansOf,
  objectSpansOf,
  readSpan,
  removalsOf,
  replaceSpans,
  type Span,
  withElements,
} from "#wire/json/spans.ts";
import { workMsOf } from "../../../support/time.ts";

const names = ["model", "stream", "n", "usage"] as const;

const space = fc.stringMatching(/^[ \n\r\t]{0,3}$/);
/** A key in quotes, each of its characters as it is or escaped. */
const keyText = (key: string) =>
  fc
    .array(fc.boolean(), { minLength: key.length, maxLength: key.length })
    .map(
      (escaped) =>
        `"${[...key].map((character, index) => (escaped[index] ? escapeOf(character) : JSON.stringify(character).slice(1, -1))).join("")}"`,
    );
const escapeOf = (character: string) =>
  [...character]
    .flatMap((part) => part.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`))
    .join("");
/**
 * Without a lone backslash: once V8 has seen one as a key, it takes other escaped keys for it
 * (https://github.com/nodejs/node/issues/63785).
 */
const isSafe = (name: string) => name !== "\\";
const key = fc
  .oneof(
    fc.constantFrom<string>(...names),
    fc.constantFrom<string>(...names, "__proto__", "mode", "models", "", '"model"'),
    fc.string({ unit: "binary-ascii", maxLength: 8 }),
  )
  .filter(isSafe);
const value = fc.oneof(
  fc
    .object({ key: fc.string({ maxLength: 5 }).filter(isSafe), withBoxedValues: false, withNullPrototype: false })
    .map((object) => JSON.stringify(object)),
  fc.constantFrom(
    "12345678901234567890",
    "1.0",
    "-0",
    "1e400",
    '"\\u006d"',
    "true",
    "null",
    '"}\\\\"',
    '"\\\\\\""',
    "[ ]",
    "{ }",
    '{"model":"inner"}',
    '[[{"n":[]}]]',
  ),
);
const member = fc
  .tuple(space, key.chain(keyText), space, space, value, space)
  .map(([before, name, mid, after, json, end]) => `${before}${name}${mid}:${after}${json}${end}`);
/**
 * JSON objects as people and libraries write them: odd white space, repeated names, escaped names.
 */
const objectText = fc
  .tuple(space, fc.array(member, { maxLength: 8 }), space, space)
  .map(([before, members, inside, after]) => {
    const text = members.length === 0 ? inside : members.join(",");
    return `${before}{${text}}${after}`;
  });

const parsed = (text: string): Record<string, unknown> => JSON.parse(text) as Record<string, unknown>;

test("the members found are those that JSON.parse finds", () => {
  fc.assert(
    fc.property(objectText, (text) => {
      const bytes = Buffer.from(text);
      const spans = objectSpansOf(bytes, names);
      assert.ok(spans);
      const whole = parsed(text);
      for (const name of names) {
        const span: Span | undefined = spans.members[name];
        assert.equal(span !== undefined, Object.hasOwn(whole, name), name);
        if (span !== undefined) assert.deepEqual(readSpan(bytes, span), whole[name]);
      }
      assert.equal(spans.empty, Object.keys(whole).length === 0);
      assert.equal(text[spans.close], "}");
    }),
    { numRuns: 1_000 },
  );
});

test("a string ends at its own quote, whatever its length and escapes", () => {
  for (let length = 0; length < 70; length++)
    for (const escaped of ['"', "\\", '\\"', '"\\', '\\\\"'])
      for (let place = 0; place <= length; place++) {
        const text = "a".repeat(place) + escaped + "a".repeat(length - place);
        const json = JSON.stringify({ [text]: 1, usage: text, model: "mine" });
        const { usage, model } = objectSpansOf(Buffer.from(json), names)?.members ?? {};
        assert.ok(usage !== undefined && model !== undefined, json);
        assert.deepEqual([readSpan(Buffer.from(json), usage), readSpan(Buffer.from(json), model)], [text, "mine"]);
      }
});

test("a list ends at its own bracket, however far its quotes and brackets are apart", () => {
  for (const stop of ['"]"', "[]", '{"a":{}}', "1"])
    for (let length = 1; length < 2_500; length += 3) {
      const value = `[${"1".repeat(length)},${stop},${" ".repeat(length)}1]`;
      const bytes = Buffer.from(`{"x":${value},"model":1}`);
      const [x, model] = objectSpansOf(bytes, ["x", "model"])?.all ?? [];
      assert.deepEqual([x?.end, model?.end], [5 + value.length, bytes.length - 1], `${stop} ${length}`);
      assert.equal(objectSpansOf(bytes.subarray(0, 4 + value.length), ["x"]), undefined);
    }
});

test("replacing a value keeps every other byte", () => {
  fc.assert(
    fc.property(objectText, (text) => {
      const bytes = Buffer.from(text);
      const spans = objectSpansOf(bytes, names);
      assert.ok(spans);
      const models = spans.all.filter(({ name }) => name === "model");
      const replaced = replaceSpans(
        bytes,
        models.map(({ start, end }) => ({ start, end, by: Buffer.from('"other"') })),
      ).toString();
      const whole = parsed(text);
      if (Object.hasOwn(whole, "model")) whole.model = "other";
      assert.deepEqual(parsed(replaced), whole);
      let expected = text;
      for (const { start, end } of models.toReversed()) {
        const [from, to] = [bytes.toString("utf8", 0, start).length, bytes.toString("utf8", 0, end).length];
        expected = `${expected.slice(0, from)}"other"${expected.slice(to)}`;
      }
      assert.equal(replaced, expected);
    }),
    { numRuns: 1_000 },
  );
});

test("removing members keeps all others", () => {
  fc.assert(
    fc.property(objectText, fc.subarray([...names]), (text, removed) => {
      const bytes = Buffer.from(text);
      const spans = objectSpansOf(bytes, names);
      assert.ok(spans);
      const members = spans.all.filter(({ name }) => removed.includes(name));
      const rest = replaceSpans(bytes, removalsOf(bytes, members)).toString();
      const whole = parsed(text);
      for (const name of removed) delete whole[name];
      assert.deepEqual(parsed(rest), whole);
    }),
    { numRuns: 1_000 },
  );
});

test("no bytes throw, and bytes that JSON.parse rejects for their structure are not an object", () => {
  const mangled = fc
    .tuple(objectText, fc.nat(), fc.nat(), fc.uint8Array({ maxLength: 4 }))
    .map(([text, at, length, by]) => {
      const bytes = Buffer.from(text);
      const from = at % (bytes.length + 1);
      return Buffer.concat([bytes.subarray(0, from), by, bytes.subarray(from + (length % 5))]);
    });
  const any = fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes));
  const punctuation = fc
    .array(fc.constantFrom(...'{}[]:,"\\ nmodel1'), { maxLength: 40 })
    .map((characters) => Buffer.from(characters.join("")));
  fc.assert(
    fc.property(fc.oneof(mangled, any, punctuation), (bytes) => {
      const spans = objectSpansOf(bytes, names);
      for (const { start, end } of spans?.all ?? []) {
        assert.ok(start >= 0 && start < end && end <= bytes.length);
        readSpan(bytes, { start, end });
      }
      if (spans !== undefined) replaceSpans(bytes, removalsOf(bytes, spans.all));
    }),
    { numRuns: 3_000 },
  );
  for (const text of [
    "",
    " ",
    "[]",
    "null",
    '"model"',
    "{",
    '{"model"',
    '{"model":',
    '{"model":"a',
    '{"model":"a"',
    '{"model":"a",',
    '{"model":"a",}',
    '{"model" "a"}',
    '{"a":[1}',
    "{,}",
  ])
    assert.equal(objectSpansOf(Buffer.from(text), names), undefined, text);
});

test("a truncated object is never taken for a whole one", () => {
  fc.assert(
    fc.property(objectText, fc.nat(), (text, at) => {
      const bytes = Buffer.from(text.trimEnd());
      const cut = bytes.subarray(0, at % bytes.length);
      assert.equal(objectSpansOf(cut, names), undefined, cut.toString());
    }),
  );
});

test("time is linear, even for deep nesting, backslashes and escaped quotes", async () => {
  const deep = (depth: number) => Buffer.from(`{"a":${"[".repeat(depth)}${"]".repeat(depth)},"model":"m"}`);
  const slashes = (count: number) => Buffer.from(`{"a":"${"\\\\".repeat(count)}${'\\"'.repeat(count)}","model":"m"}`);
  const quotes = (count: number) => Buffer.from(`{"a":"${'\\"'.repeat(count)}","model":"m"}`);
  for (const bytes of [deep(1_000_000), slashes(1_000_000), quotes(8_000_000)]) {
    const ms = await workMsOf(() =>
      assert.equal(readSpan(bytes, objectSpansOf(bytes, names)?.members.model ?? { start: 0, end: 0 }), "m"),
    );
    assert.ok(ms < 1_000, `${ms} ms`);
  }
});

test("the elements found are those that JSON.parse finds, and removing some keeps the others", () => {
  const element = fc.tuple(
    fc.oneof(objectText, fc.json()),
    fc.constantFrom("", " ", "\n\t"),
    fc.constantFrom("", " "),
    fc.boolean(),
  );
  fc.assert(
    fc.property(fc.array(element, { maxLength: 6 }), (elements) => {
      const text = `[${elements.map(([json, before, behind]) => before + json + behind).join(",")}]`;
      const bytes = Buffer.from(text);
      const spans = elementSpansOf(bytes);
      assert.deepEqual(
        spans?.map((span) => readSpan(bytes, span)),
        JSON.parse(text),
      );
      let place = 0;
      const rest = withElements(bytes, (element) => (elements[place++]?.[3] ? undefined : element)).toString();
      assert.deepEqual(
        JSON.parse(rest),
        JSON.parse(text).filter((_: unknown, place: number) => !elements[place]?.[3]),
      );
    }),
    { numRuns: 500 },
  );
  for (const text of ["", "{}", "[1", "[1,", "[1 2]", '["'])
    assert.equal(elementSpansOf(Buffer.from(text)), undefined, text);
});

test("a member of a parsed object is found where a scan finds it, even if its name occurs elsewhere", () => {
  const nested = fc.constantFrom(
    '"model"',
    '{"model":1}',
    '["model"]',
    '"a \\"model\\" b"',
    "null",
    '{"x":{"model":"y"}}',
  );
  const member = fc.tuple(
    fc.constantFrom("model", "models", "mod", "x"),
    fc.constantFrom(":", " : ", ":\n"),
    fc.oneof(nested, fc.json()),
  );
  fc.assert(
    fc.property(fc.array(member, { maxLength: 5 }), (members) => {
      const bytes = Buffer.from(`{${members.map(([name, colon, value]) => `"${name}"${colon}${value}`).join(" ,")}}`);
      const spansOf = (spans: readonly Span[]) => spans.map(({ start, end }) => [start, end]);
      assert.deepEqual(
        spansOf(memberSpansOf(bytes, "model", JSON.parse(bytes.toString()))),
        spansOf(objectSpansOf(bytes, ["model"])?.all ?? []),
      );
    }),
    { numRuns: 1_000 },
  );
});
