/** A simulator for one test, and a caller that sees every byte of an answer and how it ended. */
import { once } from "node:events";
import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request } from "node:http";
import type { TestContext } from "node:test";
import OpenAI from "openai";
import type { JournalEntry } from "../../apps/simulator/journal.ts";
import { createSimulator, type Simulator, type SimulatorOptions } from "../../apps/simulator/server.ts";

/** How long a condition may take to come true; reaching it is a failure. */
const deadlineMs = 10_000;

export interface Started {
  simulator: Simulator;
  url: string;
  /** The official client, without its own retries. */
  openai: OpenAI;
}

/** Closed when the test is over. */
export async function startSimulator(t: TestContext, options: SimulatorOptions = {}): Promise<Started> {
  const simulator = createSimulator(options);
  const url = await simulator.listen();
  t.after(() => simulator.close());
  return {
    simulator,
    url,
    openai: new OpenAI({ baseURL: `${url}/v1`, apiKey: options.key ?? "sk-test-0000", maxRetries: 0 }),
  };
}

export interface Heard {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  /** The text behind `data: ` in each event. */
  events: string[];
  /** "clean" when the body ended as HTTP says, else the code of the error. */
  ended: string;
}

export interface Asking {
  url: string;
  path?: string;
  method?: string;
  body?: unknown;
  headers?: Record<string, string>;
}

function send({ url, path = "/v1/chat/completions", method = "POST", body, headers = {} }: Asking): ClientRequest {
  const outgoing = request(url + path, {
    method,
    agent: false,
    headers: { authorization: "Bearer sk-test-0000", "content-type": "application/json", ...headers },
  });
  /**
   * A reset is seen on the answer, if there is one; this keeps it from being thrown a second time.
   */
  outgoing.on("error", () => {});
  outgoing.end(body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body));
  return outgoing;
}

/** The whole answer. When the connection is lost before a head, the status is 0. */
export async function ask(asking: Asking): Promise<Heard> {
  const outgoing = send(asking);
  let incoming: IncomingMessage;
  try {
    [incoming] = await once(outgoing, "response");
  } catch (error) {
    return { status: 0, headers: {}, text: "", events: [], ended: codeOf(error) };
  }
  let text = "";
  let ended = "clean";
  try {
    for await (const chunk of incoming.setEncoding("utf8")) text += chunk;
  } catch (error) {
    ended = codeOf(error);
  }
  return { status: incoming.statusCode ?? 0, headers: incoming.headers, text, events: eventsIn(text), ended };
}

/** Begins to listen to an answer; `heard()` waits until the bytes that came satisfy `enough`. */
export function begin(asking: Asking): { heard(enough: (text: string) => boolean): Promise<string>; leave(): void } {
  const outgoing = send(asking);
  let text = "";
  outgoing.on("response", (incoming) => incoming.setEncoding("utf8").on("data", (chunk) => (text += chunk)));
  return {
    heard: async (enough) => {
      await until(() => enough(text));
      return text;
    },
    leave: () => outgoing.destroy(),
  };
}

const codeOf = (error: unknown) => String((error as NodeJS.ErrnoException).code);

export const eventsIn = (text: string): string[] => [...text.matchAll(/^data: (.*)$/gm)].map((match) => match[1] ?? "");

/** Looks again and again until the condition holds; fails at a deadline. */
export async function until(condition: () => boolean): Promise<void> {
  const end = Date.now() + deadlineMs;
  while (!condition()) {
    if (Date.now() > end) throw new Error(`did not come true in ${deadlineMs} ms: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** The last request of a model, when its answer is over. */
export async function closedEntryOf(simulator: Simulator, model: string): Promise<JournalEntry> {
  const last = () => simulator.journal.list({ model }).at(-1);
  await until(() => last() !== undefined && last()?.outcome !== "running");
  return last() as JournalEntry;
}

export const chatOf = (model: string, more: object = {}) => ({
  model,
  messages: [{ role: "user", content: "Good morning" }],
  stream: true,
  ...more,
});

interface Chunk {
  choices: { index: number; delta: { content?: string; reasoning_content?: string }; finish_reason: string | null }[];
  usage?: { completion_tokens: number } | null;
}

/** The events that are JSON of a chunk. */
export const chunksOf = (events: string[]): Chunk[] =>
  events.filter((event) => event !== "[DONE]").map((event) => JSON.parse(event));

/** The texts of the events that carry some. */
export const tokensIn = (events: string[]): string[] =>
  chunksOf(events).flatMap(({ choices }) => choices.flatMap(({ delta }) => (delta.content ? [delta.content] : [])));
