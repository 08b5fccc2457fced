/**
 * What each kind of request may cost. A test fails when a request costs more, and when it costs so
 * much less that its budget has become meaningless.
 */
import assert from "node:assert/strict";
import { Agent, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { after, test } from "node:test";
import { type BareSession, openSession } from "../e2e/realtime-support.ts";
import { modelLine } from "../e2e/support.ts";
import { startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";
import {
  chatChunk,
  chatCompletion,
  chatEnd,
  jsonAnswer,
  startScriptedUpstream,
  type UpstreamRequest,
} from "../support/upstream.ts";
import { type Measure, measures, type Sample, Traffic } from "./traffic.ts";

/**
 * The budgets, for the whole gateway: ingress and worker.
 *
 * - commands: run by Redis, those of scripts included, without publishes; scripts among them.
 * - publishes: messages to other processes (SPUBLISH).
 * - writes: to connections with Redis. Commands in one write share a round trip.
 * - bytes: sent to Redis.
 * - jobs: added to a queue.
 * - timers, promises: created, with those of the test's caller and upstream.
 *
 * Each request comes alone, after everything that the one before it left behind, so it shares
 * nothing with others. The budgets include what a busy machine may add: an acknowledgement that
 * travels alone (one publish, one write, a few bytes, timers and promises), a new second in the
 * window of a limit (six commands), and a script of its own that ends a background job. A caller
 * that comes again at once asks its limits once for many requests. Requests at once or one by one,
 * chunks and messages share what their timing allows, so their budgets have more to spare.
 */
const budgets = `
                                 commands  scripts  publishes  writes    bytes  jobs  timers  promises
short answer                           23        3          4       6    3,100     1      15       105
short answer of a session              23        3          4       6    3,200     1      15       105
short answer with limits               56        5          4       8    4,200     1      19       135
20 with limits, one by one            700       60         80     130   70,000    20     320     2,700
65 short answers, 64 at once          500       24         60      70  130,000    40     420     4,300
idempotent short answer                37        4          4       8    4,500     1      18       135
stored response                        44        4          4       7    5,300     1      18       135
background response                   144       12          4      20   10,500     1      31       275
short answer to 100 kB                 27        3          4       9  103,500     1      19       125
embedding                              23        3          4       6    3,050     1      15       105
image                                  23        3          4       6    3,000     1      16       107
stream of one chunk                    23        3          5       8    3,450     1      18       115
20 chunks of a stream                   0        0         30      30    5,700     0      32       120
resumable stream of one chunk         105        9          5      15    6,600     1      26       205
20 chunks of a resumable stream        13        3         30      34   10,500     0      36       150
realtime session                       23        3          4       8    3,600     1      19       107
message of a realtime session           0        0          3       3      690     0       5        32
`;

/** The cost is the least of so many samples: a worker's look at an empty queue may add to one. */
const samples = 5;
/** The budget of a request that costs less than this part of it is stale. */
const usedShareMin = 0.8;
/** The same for requests whose cost depends on their timing. */
const timedShareMin = 0.25;

/** An acknowledgement and the end of an answer may each travel alone, as the machine has time. */
const timed: ReadonlySet<Measure> = new Set(["publishes", "writes"]);

/** The budgets that no request has been compared with yet. */
const budgetOf = new Map(
  budgets
    .trim()
    .split("\n")
    .slice(1)
    .map((line) => {
      const [kind = "", ...numbers] = line.split(/ {2,}/);
      return [kind, numbers.map((number) => Number(number.replace(",", "")))] as const;
    }),
);

/** The upstream's side of the last stream, whose first chunk is sent. */
let upstreamStream: ServerResponse;

function answer(response: ServerResponse, { path, json }: UpstreamRequest): unknown {
  if (path.endsWith("/embeddings")) {
    const data = [{ object: "embedding", index: 0, embedding: [0.5, 1] }];
    return jsonAnswer({ object: "list", model: "m", data, usage: { prompt_tokens: 1, total_tokens: 1 } })(response);
  }
  if (path.endsWith("/images/generations")) return jsonAnswer({ created: 1, data: [{ b64_json: picture }] })(response);
  if (json.stream !== true) return jsonAnswer(chatCompletion)(response);
  upstreamStream = response.writeHead(200, { "content-type": "text/event-stream" });
  return response.write(chatChunk({ role: "assistant", content: "One" }));
}

const picture = Buffer.from("89504e470d0a1a0a", "hex").toString("base64");
const upstream = await startScriptedUpstream(answer);
const scriptedModel = (id: string, upstream = "scripted") => modelLine({ id, model: id, upstream });
const gateway = await startGateway({
  // One queue at a time, for the fetches of others would come in between.
  workers: ["chat=64"],
  environment: { KEY_A: "a", KEY_B: "b" },
  catalogue: `groups:
  default: { models: ["*"] }
  limited: { models: ["*"], keyLimits: { requestsPerMinute: 1000000, tokensPerMinute: 100000000, generationsMax: 1000, budgetPerDay: 1000000 } }
upstreams:
  scripted: { dialect: openai-chat, baseUrl: "${upstream.url}" }
  pair: { dialect: openai-chat, baseUrl: "${upstream.url}", credential: KEY_A, credentials: [KEY_B] }
  pictures: { dialect: openai-images, baseUrl: "${upstream.url}" }
  simulator: { dialect: openai-chat, baseUrl: "\${SIMULATOR_URL}/v1" }
models:
${scriptedModel("chat")}${scriptedModel("paired", "pair")}${scriptedModel("embedding")}${scriptedModel("image", "pictures")}${modelLine({ id: "voice", model: "sim-realtime" })}`,
});
const limitedKey = await gateway.createKey("limited");
const traffic = await Traffic.open(gateway.redis.url);
const agent = new Agent({ keepAlive: true });
after(async () => {
  agent.destroy();
  traffic[Symbol.dispose]();
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

interface CallOptions {
  path?: string;
  headers?: Record<string, string>;
  key?: string;
}

/** Sends a request, and settles with the response's head. */
const begin = (body: object, { path = "/v1/chat/completions", headers, key = gateway.key }: CallOptions = {}) =>
  new Promise<IncomingMessage>((resolve, reject) => {
    const allHeaders = { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers };
    httpRequest(`${gateway.url}${path}`, { agent, method: "POST", headers: allHeaders }, resolve)
      .on("error", reject)
      .end(JSON.stringify(body));
  });

const textOf = (response: IncomingMessage) =>
  new Promise<string>((resolve, reject) => {
    let text = "";
    response.on("data", (part) => {
      text += part;
    });
    response.on("error", reject);
    response.on("end", () => (response.statusCode === 200 ? resolve(text) : reject(new Error(text))));
  });

const nextOf = (response: IncomingMessage) => new Promise((resolve) => response.once("data", resolve));
const call = async (body: object, options?: CallOptions) => textOf(await begin(body, options));

const chatBody = (content = "Hello") => ({ model: "chat", messages: [{ role: "user", content }] });
const responseBody = { model: "chat", input: "Hello" };

async function endOf(response: IncomingMessage): Promise<void> {
  const text = textOf(response);
  upstreamStream.end(chatEnd);
  assert.match(await text, /\[DONE\]/);
}

async function openStream(headers: Record<string, string>): Promise<IncomingMessage> {
  const response = await begin({ ...chatBody(), stream: true }, { headers });
  await nextOf(response);
  return response;
}

/** Fails if what `act` costs differs from its budget. */
async function assertBudget(kind: string, act: () => Promise<unknown>, shareMin = usedShareMin): Promise<void> {
  const budget = budgetOf.get(kind) ?? assert.fail(`${kind} has no budget`);
  budgetOf.delete(kind);
  // The first ones open connections and load scripts.
  for (let count = 0; count < 2; count++) await act();
  const taken: Sample[] = [];
  for (let count = 0; count < samples; count++) taken.push(await traffic.of(act));
  const costs = measures.map((measure) => Math.min(...taken.map(({ cost }) => cost[measure])));
  const faults = measures.flatMap((measure, index) => {
    const [cost = 0, most = 0] = [costs[index], budget[index]];
    if (cost > most) return [`${kind}: ${cost} ${measure}, and the budget is ${most}.`];
    if (cost >= Math.min(most * shareMin, most - (timed.has(measure) ? 2 : 1))) return [];
    return [`${kind}: only ${cost} ${measure}, and the budget is ${most}. Lower it, so that it stays so.`];
  });
  if (faults.length === 0) return;
  const measured = [kind.padEnd(32), ...costs.map((cost) => cost.toLocaleString("en"))].join("  ");
  const advice =
    "If the change is worth its cost, change the number in the table of test/budgets/budgets.test.ts, and say why.";
  const { commands } = taken.reduce((least, other) => (other.commands.length < least.commands.length ? other : least));
  assert.fail(`${faults.join("\n")}\n${advice}\nMeasured: ${measured}\nCommands:\n${commands.join("\n")}`);
}

let requests = 0;
const acts: Record<string, () => Promise<unknown>> = {
  "short answer": () => call(chatBody()),
  // One of two credentials: the choice asks Redis for nothing.
  "short answer of a session": () => call({ ...chatBody(), model: "paired" }),
  "short answer with limits": () => call(chatBody(), { key: limitedKey }),
  "idempotent short answer": () => call(chatBody(), { headers: { "idempotency-key": `request ${++requests}` } }),
  "stored response": () => call(responseBody, { path: "/v1/responses" }),
  "short answer to 100 kB": () => call(chatBody("x".repeat(100_000))),
  embedding: () => call({ model: "embedding", input: "Hello" }, { path: "/v1/embeddings" }),
  image: () => call({ model: "image", prompt: "Hello" }, { path: "/v1/images/generations" }),
  "stream of one chunk": async () => endOf(await openStream({})),
  "resumable stream of one chunk": async () => endOf(await openStream({ "x-sluice-resumable": "true" })),
};
for (const [kind, act] of Object.entries(acts)) test(kind, () => assertBudget(kind, act));

test("20 with limits, one by one", () =>
  assertBudget(
    "20 with limits, one by one",
    async () => {
      for (let count = 0; count < 20; count++) await call(chatBody(), { key: limitedKey });
    },
    timedShareMin,
  ));

test("65 short answers, 64 at once", () =>
  assertBudget(
    "65 short answers, 64 at once",
    async () => {
      // The first one brings the number of free slots, which the others may share.
      await call(chatBody());
      await Promise.all(Array.from({ length: 64 }, () => call(chatBody())));
    },
    timedShareMin,
  ));

const streams = { "20 chunks of a stream": {}, "20 chunks of a resumable stream": { "x-sluice-resumable": "true" } };
for (const [kind, headers] of Object.entries(streams))
  test(kind, async () => {
    const response = await openStream(headers);
    await assertBudget(
      kind,
      async () => {
        for (let count = 0; count < 20; count++) {
          const next = nextOf(response);
          upstreamStream.write(chatChunk({ content: "more" }));
          await next;
        }
      },
      timedShareMin,
    );
    await endOf(response);
  });

/** Only this queue has a worker from now on. */
async function serveOnly(queue: string): Promise<void> {
  await gateway.workers.at(-1)?.kill();
  await gateway.addWorker(`${queue}=16`);
}

async function close(session: BareSession): Promise<void> {
  session.socket.close();
  await session.closed;
}

test("realtime session, and a message of one", async () => {
  await serveOnly("realtime");
  await assertBudget("realtime session", async () => {
    const session = await openSession(gateway, "voice");
    await session.next();
    await close(session);
  });
  const session = await openSession(gateway, "voice");
  await session.next();
  await assertBudget(
    "message of a realtime session",
    async () => {
      session.send({ type: "session.update", session: { type: "realtime", instructions: "Be brief." } });
      await session.until("session.updated");
    },
    timedShareMin,
  );
  await close(session);
});

test("background response", async () => {
  await serveOnly("background");
  const client = gateway.client();
  const ids: string[] = [];
  await assertBudget("background response", async () => {
    const before = upstream.requests.length;
    const { id } = JSON.parse(await call({ ...responseBody, background: true }, { path: "/v1/responses" }));
    ids.push(id);
    await until("the upstream is called", () => upstream.requests.length > before);
  });
  for (const id of ids) assert.equal((await client.responses.retrieve(id)).status, "completed");
});

test("every budget was needed", () => assert.deepEqual([...budgetOf.keys()], []));
