/** Forms with a recording, as clients of every language write them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { transcriptionValuesOf } from "#operations/transcriptions/form.ts";
import { transcriptionFormSchema } from "#operations/transcriptions/schema.ts";
import { faultIn } from "../../../../apps/ingress/request/validation.ts";

const formOf = (fields: readonly (readonly [string, string])[]) => {
  const form = new FormData();
  form.append("file", new File(["RIFF"], "a.wav", { type: "audio/wav" }));
  form.append("model", "whisper-1");
  for (const [name, value] of fields) form.append(name, value);
  return form;
};

test("lists have `[]` or not; flags and numbers are read as FastAPI's servers read them", () => {
  const accepted: [fields: [string, string][], values: object][] = [
    // OpenAI takes the bare name: https://github.com/BerriAI/litellm/pull/36036
    [[["timestamp_granularities", "word"]], { timestamp_granularities: ["word"] }],
    [
      [
        ["timestamp_granularities", "word"],
        ["timestamp_granularities", "segment"],
      ],
      { timestamp_granularities: ["word", "segment"] },
    ],
    [[["timestamp_granularities[]", "word"]], { timestamp_granularities: ["word"] }],
    [[["include", "logprobs"]], { include: ["logprobs"] }],
    // https://docs.pydantic.dev/2.3/usage/types/booleans/
    ...["true", "True", "1", "on", "YES"].map((text): [[string, string][], object] => [
      [["stream", text]],
      { stream: true },
    ]),
    ...["false", "False", "0", "off", "No"].map((text): [[string, string][], object] => [
      [["stream", text]],
      { stream: false },
    ]),
    ...[" 0.5 ", ".5", "+0.50", "5e-1"].map((text): [[string, string][], object] => [
      [["temperature", text]],
      { temperature: 0.5 },
    ]),
    [[["temperature", "1."]], { temperature: 1 }],
  ];
  for (const [fields, values] of accepted) {
    const read = transcriptionValuesOf(formOf(fields));
    const { model: _model, file: _file, ...others } = read;
    assert.deepEqual(others, values, JSON.stringify(fields));
    assert.equal(faultIn(transcriptionFormSchema, read), undefined, JSON.stringify(fields));
  }
  for (const [name, value] of [
    ["stream", "2"],
    ["stream", ""],
    ["stream", "none"],
    ["temperature", "0,2"],
    ["temperature", "nan"],
    ["temperature", "-0.1"],
    ["temperature", ""],
    ["timestamp_granularities", "words"],
  ] as const)
    assert.equal(
      faultIn(transcriptionFormSchema, transcriptionValuesOf(formOf([[name, value]])))?.param?.split("[")[0],
      name,
      value,
    );
});
