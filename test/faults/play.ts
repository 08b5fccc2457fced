import { Agent, type IncomingHttpHeaders, request } from "node:http";
import { hashOf } from "#access/key.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { nanoPerUnit } from "#ledger/money.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { createSimulator, type Simulator } from "../../apps/simulator/server.ts";
import type { Observed } from "../conformance/ask.ts";
import { callers } from "../conformance/callers/callers.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";
import { startSilentServer } from "../support/tcp.ts";
import { until } from "../support/time.ts";
import { startTlsFront, tlsFiles } from "../support/tls.ts";
import {
  asksSameModel,
  type Cell,
  dialectOfSecond,
  expectedOf,
  faultAt,
  type Pace,
  resumedMs,
  rows,
  type Transport,
  transports,
} from "./cases.ts";

/** One request, as its caller sees it. */
export interface Heard {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  /** The connection broke before the end of the answer. */
  broken: boolean;
  tookMs: number;
  /** As its caller understands it; undefined where it understands nothing. */
  read: Observed | undefined;
  /** The request's reservation from its caller's budget, in the catalogue's currency. */
  reserved: number;
}

/** The observations in a cell. */
export interface Played {
  /** In ms since 1970. */
  askedAt: number;
  heard: Heard;
  /** When each call arrived, in ms since 1970. */
  first: number[];
  second: number[];
  /** How often the first target was called, where it can't say. */
  callsOfAbsent: number;
  /** The charge to the caller's budget. */
  spent: number;
  /** Tokens that the worker counted for the model of this cell, over both requests. */
  counted: { input: number; output: number };
  /**
   * The next request: to the same model, or to a neighbour at the same upstreams where the model
   * stays ill.
   */
  next: { heard: Heard; first: number; second: number };
}

export interface Play {
  played: Map<Cell, Played>;
  /** Texts that no caller may see: addresses of upstreams. */
  secrets: string[];
}

export const prices = { input: 1, output: 2 };
const question = "Hello, how are you?";

/** How many cells run at once, beside those that are long because they wait. */
const atOnceMax = 32;

const upstreamOf = (place: number, dialect: ConversationDialect, transport: Transport) =>
  `row${place}-${dialect}-${transport}`;
/** Where nothing answers, every cell has an upstream of its own, whose calls the worker counts. */
const absentOf = (cell: Cell) => `absent-${shortNameOf(cell)}`;
const shortNameOf = ({ place, dialect, streams, arrangement, transport }: Cell) =>
  `${place}-${dialectLetters[dialect]}-${streams ? "s" : "w"}-${arrangement}-${transport}`;
const dialectLetters: Record<ConversationDialect, string> = {
  "openai-chat": "c",
  "openai-responses": "r",
  "anthropic-messages": "a",
  gemini: "g",
};
const isAbsent = ({ row }: Cell) => row.fault === "dead" || row.fault === "stalled";
const neighbourOf = (cell: Cell) => `neighbour-${cell.place}-${cell.dialect}-${cell.transport}`;
const nameOfFirst = (cell: Cell, pace: Pace) => {
  const calls = 1 + expectedOf(cell, pace).pauses.length;
  const failing = cell.row.recovers && !cell.row.fault.includes("fail-first") ? `;fail-first=${calls}` : "";
  return `theirs-${cell.id};${faultAt(pace, cell.row)}${failing}`;
};
const nameOfSecond = (cell: Cell) => `theirs-second-${cell.id}`;

/** Where a row's simulator is reached, over each transport. */
type Urls = Record<Transport, string>;

/**
 * A connection that was kept after another request is one whose reset says nothing: those that are
 * reset have an upstream of their own.
 */
const isAlone = ({ row }: Cell): boolean => row.fault.startsWith("reset=0");
const aloneOf = (cell: Cell): string => `alone-${shortNameOf(cell)}`;
const upstreamOfFirst = (cell: Cell): string => {
  if (isAbsent(cell)) return absentOf(cell);
  return isAlone(cell) ? aloneOf(cell) : upstreamOf(cell.place, cell.dialect, cell.transport);
};

function catalogueOf(cells: readonly Cell[], simulators: readonly Urls[], stalledPort: number, pace: Pace): string {
  const limitsOf = (place: number) => {
    const { timeouts, section } = rows[place] as (typeof rows)[number];
    const quietMs = pace.quietMs[timeouts];
    if (!section.startsWith("Silence") || (timeouts === "patient" && pace.isDefault)) return "";
    return `, timeouts: { firstByteTimeoutMs: ${quietMs}, firstTokenTimeoutMs: ${quietMs}, betweenTokensTimeoutMs: ${quietMs}, firstContentTimeoutMs: ${pace.beginMs[timeouts]}, totalTimeoutMs: ${pace.totalMs[timeouts]} }`;
  };
  const upstream = (name: string, dialect: ConversationDialect, url: string, more = "") => {
    const tls = url.startsWith("https:") ? `, tls: { caFile: "${tlsFiles.caFile}" }` : "";
    return `  ${name}: { dialect: ${dialect}, credential: UPSTREAM_KEY, baseUrl: "${url}/${dialect === "gemini" ? "v1beta" : "v1"}"${tls}${more} }\n`;
  };
  const absentUrl = ({ row, transport }: Cell) =>
    row.fault === "stalled"
      ? `https://127.0.0.1:${stalledPort}`
      : transport === "http"
        ? "http://127.0.0.1:9"
        : "https://127.0.0.1:9";
  const target = (name: string, model: string) => `{ upstream: ${name}, model: "${model}" }`;
  const model = (id: string, route: string[], more = "") =>
    `  - { id: ${id}, ${more}prices: { inputPerMillion: ${prices.input}, outputPerMillion: ${prices.output} }, route: [${route.join(", ")}] }\n`;
  const tenSeconds = resumedMs(pace);
  const limits = ["firstByteTimeoutMs", "firstTokenTimeoutMs", "firstContentTimeoutMs", "betweenTokensTimeoutMs"].map(
    (name) => `${name}: ${tenSeconds}`,
  );
  const resumed = `resume: true, deterministic: true, timeouts: { ${limits.join(", ")} }, `;
  return [
    'groups: { default: { models: ["*"], keyLimits: { budgetPerDay: 1000 } } }\nupstreams:\n',
    ...simulators.flatMap((urls, place) =>
      transports.flatMap((transport) =>
        conversationDialects.map((dialect) =>
          upstream(upstreamOf(place, dialect, transport), dialect, urls[transport], limitsOf(place)),
        ),
      ),
    ),
    ...cells
      .filter(isAbsent)
      .map((cell) =>
        upstream(absentOf(cell), cell.dialect, absentUrl(cell), `, timeouts: { connectTimeoutMs: ${pace.connectMs} }`),
      ),
    ...cells
      .filter(isAlone)
      .map((cell) =>
        upstream(aloneOf(cell), cell.dialect, (simulators[cell.place] as Urls)[cell.transport], limitsOf(cell.place)),
      ),
    "models:\n",
    ...rows.flatMap((_, place) =>
      transports.flatMap((transport) =>
        conversationDialects.map((dialect) =>
          model(`neighbour-${place}-${dialect}-${transport}`, [
            target(upstreamOf(place, dialect, transport), "theirs-healthy"),
          ]),
        ),
      ),
    ),
    ...cells.flatMap((cell) => {
      const { id, place, dialect, transport, arrangement } = cell;
      const first = target(upstreamOfFirst(cell), nameOfFirst(cell, pace));
      const second = target(upstreamOf(place, dialectOfSecond[dialect], transport), nameOfSecond(cell));
      switch (arrangement) {
        case "one":
          return model(id, [first]);
        case "two":
          return model(id, [first, second]);
        case "resumed":
          return model(id, [first, second], resumed);
        case "fallback":
          return [model(`other-${id}`, [second], resumed), model(id, [first], `${resumed}fallbacks: [other-${id}], `)];
        default:
          return arrangement satisfies never;
      }
    }),
  ].join("");
}

/** Rejects when no answer comes. */
function send(
  url: string,
  agent: Agent,
  key: string,
  { path, body }: { path: string; body: string },
): Promise<Omit<Heard, "read" | "reserved">> {
  const startedAt = performance.now();
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      "content-length": Buffer.byteLength(body),
    };
    const outgoing = request(`${url}${path}`, { method: "POST", agent, headers }, (incoming) => {
      const chunks: Buffer[] = [];
      incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
      incoming.on("error", () => undefined);
      incoming.on("close", () => {
        const text = Buffer.concat(chunks).toString("utf8");
        const { statusCode: status = 0 } = incoming;
        resolve({
          status,
          headers: incoming.headers,
          text,
          broken: !incoming.complete,
          tookMs: performance.now() - startedAt,
        });
      });
    });
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}

/** Signs of life are no part of an answer. */
const withoutKeepAlives = (text: string) => text.replaceAll('event: keepalive\ndata: {"type":"keepalive"}\n\n', "");

async function hear(url: string, agent: Agent, key: string, { dialect, streams }: Cell, model: string): Promise<Heard> {
  const { path, body } = callers[dialect].requestOf({ turns: [{ role: "user", text: question }] }, model, streams);
  const text = JSON.stringify(body);
  const heard = await send(url, agent, key, { path, body: text });
  let read: Observed | undefined;
  try {
    read =
      streams && heard.status === 200
        ? callers[dialect].readStream(withoutKeepAlives(heard.text))
        : callers[dialect].readWhole(heard.status, heard.text);
  } catch {}
  const outputTokens = typeof body.max_tokens === "number" ? body.max_tokens : 1_000;
  const reserved = (Math.ceil(text.length / 4) * prices.input + outputTokens * prices.output) / 1_000_000;
  return { ...heard, read, reserved };
}

/** The samples of a counter in a scrape, by the values of two of its labels. */
function samplesOf(scrape: string, name: string, labels: readonly [string, string]): Map<string, number> {
  const samples = new Map<string, number>();
  for (const [, inside = "", value] of scrape.matchAll(new RegExp(`^${name}\\{([^}]*)\\} (\\S+)$`, "gm"))) {
    const [one, other] = labels.map((label) => new RegExp(`(?:^|,)${label}="([^"]*)"`).exec(inside)?.[1]);
    samples.set(`${one} ${other}`, Number(value));
  }
  return samples;
}

async function playCell(
  cell: Cell,
  pace: Pace,
  gateway: Gateway,
  simulator: Simulator,
  agent: Agent,
  key: string,
  spentOf: (key: string) => Promise<number>,
) {
  const seen = (model: string) => simulator.journal.list({ model }).map(({ at }) => at);
  const askedAt = Date.now();
  const heard = await hear(gateway.url, agent, key, cell, cell.id);
  const [first, second] = [seen(nameOfFirst(cell, pace)), seen(nameOfSecond(cell))];
  const spent = await spentOf(key);
  const next = await hear(gateway.url, agent, key, cell, asksSameModel(cell.row) ? cell.id : neighbourOf(cell));
  const calls = {
    first: seen(nameOfFirst(cell, pace)).length - first.length,
    second: seen(nameOfSecond(cell)).length - second.length,
  };
  return {
    askedAt,
    heard,
    first,
    second,
    spent,
    next: { heard: next, ...calls },
    callsOfAbsent: 0,
    counted: { input: 0, output: 0 },
  };
}

/** So many keys, each known to the ingress. */
async function keysOf(gateway: Gateway, count: number): Promise<string[]> {
  const keys: string[] = [];
  while (keys.length < count)
    keys.push(
      ...(await Promise.all(
        Array.from({ length: Math.min(atOnceMax, count - keys.length) }, () => gateway.createKey("default")),
      )),
    );
  return keys;
}

/**
 * The cells at a pace. The limits of silence and of connecting alone are shortened by it;
 * everything else is as a catalogue has it that says nothing.
 */
export async function play(cells: readonly Cell[], pace: Pace): Promise<Play> {
  await using simulators = {
    all: rows.map(() => createSimulator()),
    async [Symbol.asyncDispose]() {
      await Promise.all(this.all.map((simulator) => simulator.close()));
    },
  };
  await using opened = new AsyncDisposableStack();
  const urls = await Promise.all(
    simulators.all.map(async (simulator): Promise<Urls> => {
      const http = await simulator.listen();
      const port = Number(new URL(http).port);
      const [https, h2] = [
        opened.use(await startTlsFront(port, "http/1.1")),
        opened.use(await startTlsFront(port, "h2")),
      ];
      return { http, https: `https://127.0.0.1:${https.port}`, h2: `https://127.0.0.1:${h2.port}` };
    }),
  );
  const { port: stalledPort } = opened.use(await startSilentServer());
  await using gateway = await startGateway({
    processes: "all",
    workers: ["chat=1024"],
    catalogue: catalogueOf(cells, urls, stalledPort, pace),
    environment: {
      UPSTREAM_KEY: "sk-of-the-upstream",
      ...(!pace.isDefault && { KEEP_ALIVE_MS: String(pace.keepAliveMs) }),
    },
  });
  const redis = await connectRedis(gateway.redis.url, "request");
  const agent = new Agent({ keepAlive: true });
  try {
    /** A key's spending, once none of its reservations is left. */
    const spentOf = async (key: string) => {
      const keyOf = (what: "running" | "budget") =>
        keyspaceOf("sluice").limit("key", `key_${hashOf(key).slice(0, 24)}`, what);
      await until("the request is settled", async () => (await redis.zcard(keyOf("running"))) === 0);
      return Number((await redis.hget(keyOf("budget"), "dayNano")) ?? 0) / nanoPerUnit;
    };
    const keys = await keysOf(gateway, cells.length);
    const played = new Map<Cell, Played>();
    const run = async (cell: Cell, place: number) => {
      const simulator = simulators.all[cell.place] as Simulator;
      played.set(cell, await playCell(cell, pace, gateway, simulator, agent, keys[place] as string, spentOf));
    };
    const waits = (cell: Cell) => expectedOf(cell, pace).tookMs[1] >= 1_000;
    const places = new Map(cells.map((cell, place) => [cell, place]));
    const quick = cells.filter((cell) => !waits(cell)).values();
    await Promise.all([
      ...cells.filter(waits).map((cell) => run(cell, places.get(cell) as number)),
      ...Array.from({ length: atOnceMax }, async () => {
        for (const cell of quick) await run(cell, places.get(cell) as number);
      }),
    ]);
    const operations = gateway.workers[0]?.urls.operations;
    await until("the worker has settled all", async () => {
      const { queues } = (await (await fetch(`${operations}/status`)).json()) as { queues: { usedSlots: number }[] };
      return queues.every(({ usedSlots }) => usedSlots === 0);
    });
    const scrape = await (await fetch(`${operations}/metrics`)).text();
    const tokens = samplesOf(scrape, "sluice_tokens_total", ["model", "kind"]);
    const calls = samplesOf(scrape, "sluice_upstream_calls_total", ["upstream", "again"]);
    for (const [cell, one] of played) {
      const models = [cell.id, `other-${cell.id}`];
      const countedOf = (kind: string) => models.reduce((sum, model) => sum + (tokens.get(`${model} ${kind}`) ?? 0), 0);
      one.counted = { input: countedOf("input"), output: countedOf("output") };
      one.callsOfAbsent = (calls.get(`${absentOf(cell)} no`) ?? 0) + (calls.get(`${absentOf(cell)} yes`) ?? 0);
    }
    const hosts = urls.flatMap((ofRow) => Object.values(ofRow).map((url) => new URL(url).host));
    return { played, secrets: [...hosts, "theirs-", "absent-", "sk-of-the-upstream"] };
  } finally {
    agent.destroy();
    redis.disconnect();
  }
}
