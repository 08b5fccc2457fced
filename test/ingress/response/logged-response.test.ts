import assert from "node:assert/strict";
import { after, test } from "node:test";
import { conversationDialects } from "#dialects/dialect.ts";
import { emptyLines } from "#dialects/profile.ts";
import { profiles } from "#dialects/profiles.ts";
import type { LogWriter } from "../../../apps/ingress/background/answer-log.ts";
import { LoggedResponse } from "../../../apps/ingress/response/logged-response.ts";
import { partOf } from "../../support/part-of.ts";
import { startScriptedUpstream } from "../../support/upstream.ts";

/** A log that keeps nothing. */
const log = partOf<LogWriter>({
  nextEvent: 0,
  isFull: false,
  head: () => {},
  event: (event: Buffer) => event,
  end: async () => {},
  abandon: () => {},
});

const endings: Record<string, (response: LoggedResponse) => void> = {
  "/end": (response) => response.end(),
  "/leave": (response) => response.leave("lost"),
  "/destroy": (response) => response.destroy(),
};

const server = await startScriptedUpstream((live, { path }) => {
  const response = new LoggedResponse({ log, sendsIds: true, ended: () => {} }).over(live);
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(Buffer.from("data: one\n\n"), () => endings[path]?.(response));
});
after(() => server[Symbol.asyncDispose]());
const ask = (path: string) => fetch(`${server.origin}${path}`);

test("a caller of an answer that ended reads it to its end", async () => {
  assert.equal(await (await ask("/end")).text(), "data: one\n\n");
});

for (const path of ["/leave", "/destroy"])
  test(`a caller of an answer that broke off notices (${path.slice(1)})`, async () => {
    await assert.rejects(ask(path).then((response) => response.text()));
  });

/**
 * The data of each event as OpenAI's Python library reads it: the last id stays in force, so that
 * an empty line alone is an event without data.
 */
function dataAmongIds(text: string): string[] {
  const events: string[] = [];
  let data: string[] = [];
  let hasId = false;
  for (const line of text.split("\n").slice(0, -1)) {
    if (line === "") {
      if (hasId || data.length > 0) events.push(data.join("\n"));
      data = [];
    } else if (line.startsWith("id:")) hasId = true;
    else if (line.startsWith("data:")) data.push(line.slice("data:".length).trim());
  }
  return events;
}

/** The text that a caller gets of two events with keep-alives before, between and after them. */
function written(keepAlive: string, sendsIds: boolean, breaks = false): { text: string; kinds: string[] } {
  const kinds: string[] = [];
  let text = "";
  const live = {
    headersSent: false,
    closed: false,
    writeHead: () => undefined,
    write: (chunk: string | Buffer) => {
      text += chunk;
      return true;
    },
    end: () => undefined,
    destroy: () => undefined,
    once: () => undefined,
  };
  const numbered = { ...log, event: (event: Buffer) => Buffer.concat([Buffer.from("id: gen_1.0\n"), event]) };
  const ending = partOf<LogWriter>({ ...numbered, end: async (kind = "end") => void kinds.push(kind) });
  const response = new LoggedResponse({ log: ending, sendsIds, ended: () => undefined }).over(live);
  response.writeHead(200, {});
  response.write(emptyLines);
  for (const _ of [1, 2]) {
    response.write(Buffer.from('data: {"one":1}\n\n'));
    response.write(keepAlive);
    response.write(emptyLines);
  }
  if (breaks) {
    response.write('data: {"error":{}}\n\n', () => undefined);
    response.destroy();
  }
  return { text, kinds };
}

for (const dialect of conversationDialects)
  test(`${dialect}: between events with ids, no keep-alive is an event without data`, () => {
    const read = dataAmongIds(written(profiles[dialect].keepAlive, true).text);
    assert.deepEqual(
      read.map((data) => typeof JSON.parse(data)),
      read.map(() => "object"),
    );
    assert.equal(read.filter((data) => data === '{"one":1}').length, 2);
  });

test("a client that fails on ids gets none, and the keep-alives that it knows", () => {
  const { text } = written(emptyLines, false);
  assert.equal(text.replaceAll(/\n{2,}/g, "\n\n").trim(), 'data: {"one":1}\n\ndata: {"one":1}');
});

test("the log of an answer that broke off behind its error event says so", async () => {
  const { kinds } = written(emptyLines, true, true);
  await new Promise(setImmediate);
  assert.deepEqual(kinds, ["failed"]);
});

for (const [how, kind, act] of [
  ["ends", "end", (response) => response.end()],
  ["ends with an error event", "failed", (response) => response.end('data: {"error":{}}\n\n')],
  ["breaks off", "broken", (response) => response.destroy()],
] as [string, string, (response: LoggedResponse) => void][])
  test(`the log of an answer that ${how} is written as ${kind}`, async () => {
    const kinds: string[] = [];
    const ending = partOf<LogWriter>({ ...log, end: async (end = "end") => void kinds.push(end) });
    const response = new LoggedResponse({ log: ending, sendsIds: true, ended: () => undefined });
    response.writeHead(200, {});
    act(response);
    await new Promise(setImmediate);
    assert.deepEqual(kinds, [kind]);
  });

test("the log of a request that failed before its first event is not that of an answer", async () => {
  const kinds: string[] = [];
  const ending = partOf<LogWriter>({ ...log, end: async (end = "end") => void kinds.push(end) });
  const response = new LoggedResponse({ log: ending, sendsIds: true, ended: () => undefined });
  response.writeHead(400, {});
  response.end('{"error":{}}');
  await new Promise(setImmediate);
  assert.deepEqual(kinds, ["broken"]);
});
