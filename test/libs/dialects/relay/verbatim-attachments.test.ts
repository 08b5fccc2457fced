import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import type { AttachmentAddress } from "#dialects/neutral/attachments.ts";
import { Refusal } from "#dialects/neutral/field-support.ts";
import { withAddresses } from "#dialects/relay/verbatim-attachments.ts";
import { workMsOf } from "../../../support/time.ts";

const photo = "https://example.com/a.png";
const paper = "https://example.com/a.pdf";
const image = { kind: "data", mimeType: "image/png", data: "iVBORw0K" } as const;
const pdf = { kind: "data", mimeType: "application/pdf", data: "JVBERi0x" } as const;
const text = { kind: "data", mimeType: "text/plain", data: Buffer.from('say "ä"').toString("base64") } as const;

const dataOf = ({ part, url }: AttachmentAddress) =>
  url.endsWith(".txt") ? text : part === "image" ? image : part === "file" ? pdf : undefined;

/** A request's text with its addresses replaced, and what they were. */
function replaced(dialect: ConversationDialect, sent: string, replace = dataOf) {
  const addresses: AttachmentAddress[] = [];
  const bytes = withAddresses(Buffer.from(sent), codecs[dialect].verbatim.attachmentFinder, (address) => {
    addresses.push(address);
    return replace(address);
  });
  return { text: bytes.toString(), addresses };
}

const cases: {
  dialect: ConversationDialect;
  name: string;
  sent: string;
  made: string;
  expected: [part: string, path: string][];
}[] = [
  {
    dialect: "openai-chat",
    name: "images as an object and as a string, a document",
    sent: `{ "messages":[{"role":"user","content":[ {"type":"image_url","image_url":{"url": "${photo}" ,"detail":"low"}},{"type":"image_url","image_url":"${photo}"},{"type":"file","file":{"file_data":"${paper}","filename":"a.pdf"}}]}],"model":"m" ,"big":12345678901234567890}\n`,
    made: `{ "messages":[{"role":"user","content":[ {"type":"image_url","image_url":{"url": "data:image/png;base64,iVBORw0K" ,"detail":"low"}},{"type":"image_url","image_url":"data:image/png;base64,iVBORw0K"},{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0x","filename":"a.pdf"}}]}],"model":"m" ,"big":12345678901234567890}\n`,
    expected: [
      ["image", "messages[0].content[0].image_url.url"],
      ["image", "messages[0].content[1].image_url"],
      ["file", "messages[0].content[2].file.file_data"],
    ],
  },
  {
    dialect: "openai-chat",
    name: "what is neither an image nor a document is found and left",
    sent: `{"messages":[{"role":"user","content":[{"type":"video_url","video_url":{"url":"http://10.0.0.1/v"}},{"type":"input_audio","input_audio":{"data":"http://10.0.0.1/a","format":"wav"}}]}]}`,
    made: `{"messages":[{"role":"user","content":[{"type":"video_url","video_url":{"url":"http://10.0.0.1/v"}},{"type":"input_audio","input_audio":{"data":"http://10.0.0.1/a","format":"wav"}}]}]}`,
    expected: [
      ["media", "messages[0].content[0].video_url.url"],
      ["media", "messages[0].content[1].input_audio.data"],
    ],
  },
  {
    dialect: "openai-responses",
    name: "an image, documents with and without a name, a tool's result, a screenshot",
    sent: `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"${photo}","detail":"auto"},{"type":"input_file","file_url":"${paper}"},{"type":"input_file","filename":"my.pdf", "file_url":"${paper}"},{"type":"input_file","file_data":null,"filename":null,"file_url":"${paper}"}]},{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"${photo}"}]},{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","image_url":"${photo}"}}],"tools":[{"type":"mcp","server_url":"http://10.0.0.1/"}]}`,
    made: `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,iVBORw0K","detail":"auto"},{"type":"input_file","filename":"document.pdf","file_data":"data:application/pdf;base64,JVBERi0x"},{"type":"input_file","filename":"my.pdf", "file_data":"data:application/pdf;base64,JVBERi0x"},{"type":"input_file","filename":"document.pdf","file_data":"data:application/pdf;base64,JVBERi0x"}]},{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"data:image/png;base64,iVBORw0K"}]},{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,iVBORw0K"}}],"tools":[{"type":"mcp","server_url":"http://10.0.0.1/"}]}`,
    expected: [
      ["image", "input[0].content[0].image_url"],
      ["file", "input[0].content[1].file_url"],
      ["file", "input[0].content[2].file_url"],
      ["file", "input[0].content[3].file_url"],
      ["image", "input[1].output[0].image_url"],
      ["image", "input[2].output.image_url"],
      ["server", "tools[0].server_url"],
    ],
  },
  {
    dialect: "anthropic-messages",
    name: "an image, a document, a text, within a tool's result and within a document, but no tool's input",
    sent: `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"${photo}"},"cache_control":{"type":"ephemeral"}},{"type":"document","source":{"url":"${paper}", "type":"url"}},{"type":"document","source":{"type":"url","url":"https://example.com/a.txt"}},{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"url","url":"${photo}"}}]},{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"url","url":"${photo}","media_type":"image/jpeg"}}]}}]},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{"url":"http://10.0.0.1/","source":{"type":"url","url":"http://10.0.0.1/"}}}]}],"mcp_servers":[{"url":"http://10.0.0.1/"}]}`,
    made: `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0K"},"cache_control":{"type":"ephemeral"}},{"type":"document","source":{"media_type":"application/pdf","data":"JVBERi0x", "type":"base64"}},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"say \\"ä\\""}},{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0K"}}]},{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0K"}}]}}]},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{"url":"http://10.0.0.1/","source":{"type":"url","url":"http://10.0.0.1/"}}}]}],"mcp_servers":[{"url":"http://10.0.0.1/"}]}`,
    expected: [
      ["image", "messages[0].content[0].source.url"],
      ["file", "messages[0].content[1].source.url"],
      ["file", "messages[0].content[2].source.url"],
      ["image", "messages[0].content[3].content[0].source.url"],
      ["image", "messages[0].content[4].source.content[0].source.url"],
      ["server", "mcp_servers[0].url"],
    ],
  },
  {
    dialect: "gemini",
    name: "in both spellings, in a function's response and in a request to be counted; what Google keeps stays",
    sent: `{"contents":[{"parts":[{"fileData":{"mimeType":"image/jpeg","fileUri":"${photo}","displayName":"a"},"thought":false},{"file_data" :{"file_uri":"${paper}"}},{"fileData":{"fileUri":"gs://bucket/a.png"}},{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/abc"}},{"fileData":{"fileUri":"https://www.youtube.com/watch?v=x"}},{"functionResponse":{"name":"f","response":{"fileData":{"fileUri":"${photo}"}},"parts":[{"fileData":{"fileUri":"${photo}"}}]}},{"fileData":{"mimeType":"video/mp4","fileUri":"https://example.com/a.mp4"}}]}],"generateContentRequest":{"contents":{"parts":{"fileData":{"fileUri":"http://10.0.0.1?.youtube.com/a.png"}}}}}`,
    made: `{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw0K","displayName":"a"},"thought":false},{"inline_data" :{"mime_type":"application/pdf","data":"JVBERi0x"}},{"fileData":{"fileUri":"gs://bucket/a.png"}},{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/abc"}},{"fileData":{"fileUri":"https://www.youtube.com/watch?v=x"}},{"functionResponse":{"name":"f","response":{"fileData":{"fileUri":"${photo}"}},"parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw0K"}}]}},{"fileData":{"mimeType":"video/mp4","fileUri":"https://example.com/a.mp4"}}]}],"generateContentRequest":{"contents":{"parts":{"inlineData":{"mimeType":"image/png","data":"iVBORw0K"}}}}}`,
    expected: [
      ["image", "contents[0].parts[0].fileData.fileUri"],
      ["file", "contents[0].parts[1].fileData.fileUri"],
      ["image", "contents[0].parts[5].functionResponse.parts[0].fileData.fileUri"],
      ["media", "contents[0].parts[6].fileData.fileUri"],
      ["image", "generateContentRequest.contents.parts.fileData.fileUri"],
    ],
  },
];

for (const { dialect, name, sent, made, expected } of cases)
  test(`${dialect}: ${name}`, () => {
    const { text, addresses } = replaced(dialect, sent);
    assert.equal(text, made);
    assert.deepEqual(
      addresses.map(({ part, path }) => [part, path]),
      expected,
    );
    assert.equal(replaced(dialect, sent, () => undefined).text, sent);
  });

test("an address is found in every spelling of names, scheme and slashes", () => {
  for (const value of [
    "https:\\/\\/example.com\\/a.png",
    "\\u0068ttps://example.com/a.png",
    " https://example.com/a.png",
    "HTTPS://example.com/a.png",
    "file:///etc/passwd",
  ])
    for (const name of ["image_url", "image\\u005furl"])
      assert.equal(
        replaced("openai-chat", `{"messages":[{"content":[{"${name}":{"\\u0075rl":"${value}"}}]}]}`).addresses.length,
        1,
        `${name} ${value}`,
      );
});

test("a data URL is not an address, and an attachment that is given twice is rejected", () => {
  const parts = (part: string) => `{"messages":[{"role":"user","content":[${part}]}]}`;
  assert.deepEqual(
    replaced(
      "openai-chat",
      parts(
        '{"image_url":{"url":"data:image/png;base64,AAAA"}},{"image_url":{"url":"\\u0064ata:image/png;base64,AAAA"}}',
      ),
    ).addresses,
    [],
  );
  for (const [dialect, part] of [
    ["openai-chat", `{"image_url":{"url":"data:image/png;base64,AAAA","url":"${photo}"}}`],
    ["openai-chat", `{"image_url":"${photo}","video_url":"${photo}"}`],
    ["anthropic-messages", `{"type":"image","source":{"type":"url","url":"${photo}","url":"${photo}"}}`],
  ] as const)
    assert.throws(() => replaced(dialect, parts(part)), Refusal, part);
  assert.throws(
    () => replaced("gemini", `{"contents":[{"parts":[{"fileData":{"fileUri":"${photo}","file_uri":"${photo}"}}]}]}`),
    Refusal,
  );
});

test("a request without attachments is returned without a copy", () => {
  for (const dialect of Object.keys(codecs) as ConversationDialect[]) {
    const bytes = Buffer.from(
      '{"model":"m","messages":[{"role":"user","content":"see http://10.0.0.1/ and \\"image_url\\""}]}',
    );
    assert.equal(
      withAddresses(bytes, codecs[dialect].verbatim.attachmentFinder, () => assert.fail("none is there")),
      bytes,
    );
  }
});

/** JSON text of any value, with white space and escapes as a sender may like them. */
const spacing = fc.constantFrom("", " ", "\n\t");
const jsonText = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.json({ maxDepth: 1 }),
    fc
      .tuple(spacing, fc.array(tie("value"), { maxLength: 3 }))
      .map(([space, items]) => `[${space}${items.join(`${space},`)}]`),
    fc
      .tuple(
        spacing,
        fc.array(fc.tuple(fc.constantFrom("a", "url", "data", "image_url", "x\\u00e9"), tie("value")), {
          maxLength: 3,
        }),
      )
      .map(
        ([space, members]) =>
          `{${members.map(([name, value]) => `${space}"${name}"${space}:${value}`).join(",")}${space}}`,
      ),
  ),
})).value;

const partOf: Record<ConversationDialect, { before: string; after: string; part: string; made: string }> = {
  "openai-chat": {
    before: '"messages":[{"content":[',
    after: "]}]",
    part: `{"image_url":{"url":"${photo}"}}`,
    made: '{"image_url":{"url":"data:image/png;base64,iVBORw0K"}}',
  },
  "openai-responses": {
    before: '"input":[{"content":[',
    after: "]}]",
    part: `{"image_url":"${photo}"}`,
    made: '{"image_url":"data:image/png;base64,iVBORw0K"}',
  },
  "anthropic-messages": {
    before: '"messages":[{"content":[',
    after: "]}]",
    part: `{"type":"image","source":{"type":"url","url":"${photo}"}}`,
    made: '{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0K"}}',
  },
  gemini: {
    before: '"contents":[{"parts":[',
    after: "]}]",
    part: `{"fileData":{"fileUri":"${photo}","mimeType":"image/png"}}`,
    made: '{"inlineData":{"mimeType":"image/png","data":"iVBORw0K"}}',
  },
};

test("a body may end with an empty address", () => {
  for (const dialect of conversationDialects)
    for (const end of ['"x":{"image_url":"","url":""}}', '"x":{"file_data":"a"}}', '"x":{"fileUri":""}}']) {
      const body = `{${end}`;
      assert.equal(replaced(dialect, body).text, body);
    }
});

test("replacing an address keeps every other byte", () => {
  for (const [dialect, { before, after, part, made }] of Object.entries(partOf) as [
    ConversationDialect,
    (typeof partOf)["gemini"],
  ][])
    fc.assert(
      fc.property(jsonText, jsonText, spacing, (left, right, space) => {
        const around = (own: string) =>
          `${space}{"left":${left},${space}${before}{"text":${right}},${own}${space},{"text":"\\u00e9"}${after},"right":${right}}${space}`;
        assert.equal(replaced(dialect, around(part)).text, around(made));
      }),
    );
});

test("time is linear in a body's length, whatever the depth of its members and the number of attachments", async () => {
  const times = (count: number, text: string) => new Array<string>(count).fill(text).join(",");
  const around = (inner: string) => `${'{"level":'.repeat(190)}[${inner}]${"}".repeat(190)}`;
  const sources = times(20_000, '"source":{"type":"url","url":"http://a.example/"}');
  for (const [dialect, body] of [
    ["openai-chat", `{"messages":[{"role":"user","image_url":"x","x":${around(times(60_000, '{"url":"x"}'))}}]}`],
    ["openai-responses", `{"input":[{"role":"user","x":${around(times(60_000, '{"image_url":"x"}'))}}]}`],
    ["anthropic-messages", `{"messages":[{"role":"user","x":${around(times(60_000, '{"url":"x"}'))}}]}`],
    ["gemini", `{"contents":[{"x":${around(times(60_000, '{"fileUri":"x"}'))}}]}`],
    ["anthropic-messages", `{"messages":[{"role":"user","${"n".repeat(1 << 20)}":[${times(60_000, '{"url":"x"}')}]}]}`],
    ["anthropic-messages", `{"messages":[{"role":"user","content":[{"type":"image",${sources}}]}]}`],
  ] as const) {
    const bytes = Buffer.from(body);
    const ms = await workMsOf(() => withAddresses(bytes, codecs[dialect].verbatim.attachmentFinder, () => undefined));
    assert.ok(ms < 1_000, `${dialect} ${ms} ms`);
  }
});
