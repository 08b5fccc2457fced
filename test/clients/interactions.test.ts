/**
 * Gemini's Interactions API with Google's own client, with nothing changed but address and key, on
 * upstreams of every dialect.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { GoogleGenAI, type Interactions } from "@google/genai";
import { conversationDialects } from "#dialects/dialect.ts";
import { png } from "../support/png.ts";
import { until } from "../support/time.ts";
import { greeting, modelOf, startClientsGateway, weather } from "./support.ts";

const gateway = await startClientsGateway();
after(() => gateway[Symbol.asyncDispose]());

const { interactions } = new GoogleGenAI({ apiKey: gateway.key, httpOptions: { baseUrl: gateway.url } });
const tools: Interactions.Tool[] = [
  { type: "function", name: weather.name, description: weather.description, parameters: weather.schema },
];
const input = "hello there";
const wantsWeather = 'Use get_weather for "Paris".';

type Event = Record<string, unknown> & { event_type: string; event_id?: string };

async function eventsOf(request: Omit<Interactions.CreateModelInteractionParamsStreaming, "stream">): Promise<Event[]> {
  const events: Event[] = [];
  for await (const event of await interactions.create({ ...request, stream: true })) events.push(event as Event);
  return events;
}

const typesOf = (events: readonly Event[]) =>
  events.map(({ event_type: type }) => type).filter((type, place, all) => type !== all[place - 1]);

const stepsOf = ({ steps = [] }: Interactions.Interaction) => steps.map(({ type }) => type);

const errorOf = async (work: () => Promise<unknown>) => {
  try {
    await work();
  } catch (error) {
    return error as Error & { status?: number; statusCode?: number; message: string };
  }
  return assert.fail("it should have failed");
};

/** The status and the body of an error, as it is on the wire. */
async function refusalOf(
  body: object,
): Promise<{ status: number; error: { code: number; status: string; message: string } }> {
  const response = await fetch(`${gateway.url}/v1beta/interactions`, {
    method: "POST",
    headers: { "x-goog-api-key": gateway.key, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return { status: response.status, ...((await response.json()) as { error: never }) };
}

for (const upstream of conversationDialects) {
  const model = modelOf(upstream);

  test(`an interaction of ${upstream} has steps, usage and a status, and the next goes on by its id`, async () => {
    const first = await interactions.create({ model, input });
    assert.match(first.id, /^resp_/);
    assert.deepEqual([first.status, first.model, first.output_text], ["completed", model, greeting]);
    assert.match(first.created ?? "", /^\d{4}-\d\d-\d\dT[\d:]+Z$/);
    const { total_input_tokens = 0, total_output_tokens = 0, total_tokens, ...counts } = first.usage ?? {};
    assert.ok(total_input_tokens > 0 && total_output_tokens > 0);
    assert.equal(total_tokens, total_input_tokens + total_output_tokens);
    assert.deepEqual([counts.total_thought_tokens, counts.total_tool_use_tokens], [0, 0]);
    const next = await interactions.create({
      model,
      input: [{ type: "text", text: "And now?" }],
      previous_interaction_id: first.id,
    });
    assert.equal(next.previous_interaction_id, first.id);
    assert.ok((next.usage?.total_input_tokens ?? 0) > total_input_tokens + 5, "the first turn is part of the prompt");
  });

  test(`a streamed interaction of ${upstream} has numbered events, and is stored as a whole one is`, async () => {
    const events = await eventsOf({ model, input });
    assert.deepEqual(typesOf(events), [
      "interaction.created",
      "interaction.status_update",
      "step.start",
      "step.delta",
      "step.stop",
      "interaction.completed",
    ]);
    assert.deepEqual(
      events.map(({ event_id: id }) => id),
      events.map((_, place) => String(place)),
    );
    const text = events.map(({ delta }) => (delta as { text?: string } | undefined)?.text ?? "").join("");
    assert.equal(text, greeting);
    const { id, status, usage } = (events.at(-1) as Event).interaction as Interactions.Interaction;
    assert.equal(status, "completed");
    assert.ok((usage?.total_tokens ?? 0) > 0);
    const stored = await interactions.get(id, { include_input: true });
    assert.deepEqual([stored.output_text, stored.status], [greeting, "completed"]);
    assert.deepEqual(stored.input, [{ type: "user_input", content: [{ type: "text", text: input }] }]);
    await interactions.delete(id);
    assert.equal((await errorOf(() => interactions.get(id))).constructor.name.length > 0, true);
  });

  test(`a tool loop of ${upstream} works by id, and with all steps sent again`, async () => {
    const first = await interactions.create({ model, input: wantsWeather, tools });
    assert.equal(first.status, "requires_action");
    const call = first.steps?.find((step) => step.type === "function_call");
    assert.ok(call?.type === "function_call");
    assert.deepEqual([call.name, call.arguments], [weather.name, { city: "Paris" }]);
    const result = { type: "function_result" as const, call_id: call.id, name: call.name, result: "Sunny, 21 degrees" };
    const byId = await interactions.create({ model, input: [result], tools, previous_interaction_id: first.id });
    assert.match(byId.output_text ?? "", /Sunny, 21 degrees/);
    const again = await interactions.create({
      model,
      store: false,
      tools,
      input: [
        { type: "user_input", content: [{ type: "text", text: wantsWeather }] },
        ...(first.steps ?? []),
        { ...result, result: { weather: "Sunny", degrees: 21 } },
      ] as Interactions.Step[],
    });
    assert.match(again.output_text ?? "", /degrees/);
  });

  test(`a streamed call of ${upstream} has its arguments in deltas and requires action`, async () => {
    const events = await eventsOf({ model, input: wantsWeather, tools });
    const start = events.find(({ step }) => (step as { type?: string } | undefined)?.type === "function_call") as Event;
    assert.deepEqual((start.step as { arguments: object }).arguments, {});
    const json = events
      .filter(({ delta, index }) => index === start.index && (delta as { type?: string })?.type === "arguments_delta")
      .map(({ delta }) => (delta as { arguments: string }).arguments)
      .join("");
    assert.deepEqual(JSON.parse(json), { city: "Paris" });
    assert.equal(((events.at(-1) as Event).interaction as { status: string }).status, "requires_action");
  });

  test(`a picture, instructions and a schema reach ${upstream}`, async () => {
    const seen = await interactions.create({
      model,
      system_instruction: "Be brief.",
      input: [
        { type: "text", text: "What is this?" },
        { type: "image", data: png.toString("base64"), mime_type: "image/png" },
      ],
    });
    assert.match(seen.output_text ?? "", /I see 1 image \(.*png/);
    const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
    const shaped = await interactions.create({
      model,
      input: "Which city?",
      response_format: { type: "text", mime_type: "application/json", schema },
    });
    assert.equal(typeof (JSON.parse(shaped.output_text ?? "") as { city: string }).city, "string");
  });

  test(`stop sequences end an answer of ${upstream}, and a limit of tokens makes it incomplete`, async () => {
    const stopped = await interactions.create({ model, input, generation_config: { stop_sequences: ["This is"] } });
    assert.equal(stopped.output_text, "You said: hello there\n");
    // OpenAI's smallest limit takes the place of smaller ones.
    const long = Array.from({ length: 40 }, (_, place) => `word${place}`).join(" ");
    const short = await interactions.create({ model, input: long, generation_config: { max_output_tokens: 3 } });
    assert.equal(short.status, "incomplete");
  });

  test(`errors of ${upstream} have Google's form, whole and in a stream`, async () => {
    const refused = await refusalOf({ model: modelOf(upstream, "refusing"), input });
    assert.deepEqual([refused.status, refused.error.code, refused.error.status], [400, 400, "INVALID_ARGUMENT"]);
    const streamed = await refusalOf({ model: modelOf(upstream, "overloaded"), input, stream: true });
    assert.deepEqual([streamed.status, streamed.error.status], [503, "UNAVAILABLE"]);
    const events = await eventsOf({ model: modelOf(upstream, "breaking"), input });
    const last = events.at(-1) as Event & { error: { code: string; message: string } };
    assert.equal(last.event_type, "error");
    assert.ok(last.error.message.length > 0 && /^[A-Z_]+$/.test(last.error.code));
  });

  test(`an interaction of ${upstream} runs in the background, and is polled and cancelled`, async () => {
    const begun = await interactions.create({ model, input, background: true });
    assert.ok(["queued", "in_progress"].includes(begun.status), begun.status);
    let polled = begun;
    await until("the interaction is over", async () => {
      polled = await interactions.get(begun.id);
      return !["queued", "in_progress"].includes(polled.status);
    });
    assert.deepEqual([polled.status, polled.output_text], ["completed", greeting]);
    const slow = await interactions.create({ model: modelOf(upstream, "slow"), input, background: true });
    assert.equal((await interactions.cancel(slow.id)).status, "cancelled");
  });
}

for (const model of ["reasoner", "gemini-reasoner"])
  test(`thinking of ${model} is a thought with a signature, whole and streamed, and comes back`, async () => {
    const config = { thinking_level: "low", thinking_summaries: "auto" } as const;
    const whole = await interactions.create({ model, input, generation_config: config, store: false });
    assert.deepEqual(stepsOf(whole).slice(0, 2), ["thought", "model_output"]);
    // Gemini signs the text that follows the thinking: its signature is a thought of its own.
    const thoughts = (whole.steps ?? []).flatMap((step) => (step.type === "thought" ? [step] : []));
    assert.ok(thoughts.some(({ signature = "" }) => signature !== ""));
    assert.ok(thoughts.some(({ summary = [] }) => summary.length > 0));
    assert.ok((whole.usage?.total_thought_tokens ?? 0) > 0);
    const events = await eventsOf({ model, input, generation_config: config });
    const kinds = events.flatMap(({ delta }) => (delta as { type?: string } | undefined)?.type ?? []);
    assert.deepEqual([...new Set(kinds)].sort(), ["text", "thought_signature", "thought_summary"]);
    const next = await interactions.create({
      model,
      store: false,
      input: [
        { type: "user_input", content: [{ type: "text", text: input }] },
        ...(whole.steps ?? []),
        { type: "user_input", content: [{ type: "text", text: "And now?" }] },
      ] as Interactions.Step[],
    });
    assert.equal(next.status, "completed");
  });

test("an interaction that is not stored can't be found, and errors name what the caller sent", async () => {
  const model = modelOf("openai-chat");
  const { id } = await interactions.create({ model, input, store: false });
  for (const [body, status, code, message] of [
    [{ model, input, previous_interaction_id: id }, 400, "INVALID_ARGUMENT", /^Previous interaction with id 'resp_/],
    [{ input }, 400, "INVALID_ARGUMENT", /model/],
    [{ model: "nothing", input }, 404, "NOT_FOUND", /nothing/],
    [{ agent: "deep-research", input }, 400, "INVALID_ARGUMENT", /^agent names an agent/],
    [{ model, input, cached_content: "cachedContents/x" }, 400, "INVALID_ARGUMENT", /^cached_content names/],
    [
      { model, input, tools: [{ type: "google_search" }] },
      400,
      "INVALID_ARGUMENT",
      /^tools\[0\]\.type is "google_search"/,
    ],
    [
      { model, input: [{ type: "image", uri: "files/abc" }] },
      400,
      "INVALID_ARGUMENT",
      /^input\[0\]\.uri names a stored file/,
    ],
    [{ model, input: [{ type: "unheard" }] }, 400, "INVALID_ARGUMENT", /^input\[0\]\.type/],
    [
      { model, input, generation_config: { temperature: 9 } },
      400,
      "INVALID_ARGUMENT",
      /generation_config\.temperature/,
    ],
    [{ model, input, generation_config: { tool_choice: "sometimes" }, tools }, 400, "INVALID_ARGUMENT", /tool_choice/],
    [{ model, input, background: true, stream: true }, 400, "INVALID_ARGUMENT", /background/],
    [{ model, input, background: true, store: false }, 400, "INVALID_ARGUMENT", /background/],
  ] as const) {
    const { error, ...refused } = await refusalOf(body);
    assert.deepEqual([refused.status, error.code, error.status], [status, status, code], JSON.stringify(error));
    assert.match(error.message, message);
  }
  for (const path of [`/v1beta/interactions/${id}`, "/v1beta/interactions/resp_x/cancel"]) {
    const method = path.endsWith("cancel") ? "POST" : "GET";
    const response = await fetch(`${gateway.url}${path}`, { method, headers: { "x-goog-api-key": gateway.key } });
    assert.equal(response.status, 404, path);
    assert.match(((await response.json()) as { error: { message: string } }).error.message, /^Interaction with id/);
  }
});

test("OpenAI's clients and Google's see one store", async () => {
  const model = modelOf("openai-chat");
  const response = await gateway.client().responses.create({ model, input });
  const stored = await interactions.get(response.id);
  assert.equal(stored.output_text, greeting);
});
