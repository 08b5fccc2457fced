/**
 * The fault suite with the catalogue's default timeouts: `npm run faults` runs it in some ten
 * minutes and writes docs/faults.md.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  type Arrangement,
  allCells,
  arrangements,
  type Cell,
  type Expected,
  errorShapes,
  expectedOf,
  type Pace,
  type Row,
  rows,
  type Span,
} from "./cases.ts";
import { complaintsOf } from "./check.ts";
import { type OutageSeen, outages, playOutage } from "./outage.ts";
import { type Played, play } from "./play.ts";

const pace: Pace = {
  connectMs: 5_000,
  quietMs: { patient: 30_000, hasty: 5_000 },
  beginMs: { patient: 300_000, hasty: 10_000 },
  totalMs: { patient: 600_000, hasty: 60_000 },
  keepAliveMs: 10_000,
  isDefault: true,
};
const file = join(import.meta.dirname, "..", "..", "docs", "faults.md");

type Ways = [whole: Expected, streamed: Expected];

/** The same for every dialect, but for how an error reads. */
const waysOf = (row: Row, arrangement: Arrangement): Ways =>
  [false, true].map((streams) => expectedOf({ row, streams, arrangement }, pace)) as Ways;

const arrangementNames: Record<Arrangement, string> = {
  one: "one target",
  two: "two targets",
  resumed: "two targets, resumed",
  fallback: "a fallback, resumed",
};

const secondsOf = (ms: number) => (ms >= 60_000 && ms % 60_000 === 0 ? `${ms / 60_000} min` : `${ms / 1_000} s`);
const timeOf = ([least, most]: Span) =>
  most === 0
    ? "at once"
    : most - least <= 300 && least >= 1_000
      ? secondsOf(least)
      : `${least / 1_000}–${most / 1_000} s`;

function gotText({ got, tookMs }: Expected): string {
  if (got.kind === "whole") return "the answer";
  const { error, seconds, where, content } = got;
  const after = tookMs[0] >= 1_000 && seconds === undefined ? ` after ${secondsOf(tookMs[0])}` : "";
  if (where === "stream") return `${content ? "the content" : "keep-alives"}, then _${error}_ in the stream${after}`;
  return `${errorShapes[error].status} _${error}_${seconds === undefined ? "" : `, Retry-After: ${seconds}`}${after}`;
}

function callsText({ pauses }: Expected): string {
  if (pauses.length === 0) return "once";
  const same = new Set(pauses.map(timeOf)).size === 1 && pauses.length > 1;
  return `${pauses.length === 1 ? "twice" : `${pauses.length + 1} times`}, after ${same ? `${timeOf(pauses[0] as Span)} each` : pauses.map(timeOf).join(" and ")}`;
}

const secondText = ({ second }: Expected) =>
  second === undefined ? "not" : second[1] === 0 ? "at once" : `after ${timeOf(second)}`;
const billedText = ({ billed }: Expected) =>
  ({ answer: "the answer", nothing: "nothing", estimate: "an estimate" })[billed];

/** The text for whole and streamed answers, separately if they differ. */
function bothWays([whole, streamed]: Ways, textOf: (expected: Expected) => string): string {
  const texts = [textOf(whole), textOf(streamed)];
  return texts[0] === texts[1] ? (texts[0] as string) : `whole: ${texts[0]}; streamed: ${texts[1]}`;
}

/** Padded as Biome formats tables. */
function tableOf(head: string[], lines: string[][]): string {
  const widths = head.map((title, column) =>
    Math.max(title.length, ...lines.map((line) => (line[column] as string).length)),
  );
  const lineOf = (line: string[]) =>
    `| ${line.map((text, column) => text.padEnd(widths[column] as number)).join(" | ")} |`;
  return [lineOf(head), `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`, ...lines.map(lineOf)].join("\n");
}

function linesOf(row: Row): string[][] {
  const lines = arrangements.map((arrangement) => {
    const ways = waysOf(row, arrangement);
    return [
      arrangementNames[arrangement],
      ...ways.map(gotText),
      bothWays(ways, callsText),
      arrangement === "one" ? "–" : bothWays(ways, secondText),
      bothWays(ways, billedText),
    ];
  });
  // Arrangements in which the same happens share a line.
  const shared = lines.reduce<string[][]>((all, line) => {
    const same = all.find((other) =>
      other.slice(1).every((text, column) => text === line[column + 1] || (text === "–" && line[column + 1] === "not")),
    );
    if (same === undefined) all.push(line);
    else same.splice(0, line.length, `${same[0]}; ${line[0]}`, ...line.slice(1));
    return all;
  }, []);
  return shared.map(([names = "", ...line], place) => [
    place === 0 ? row.says : "",
    names.split("; ").length === arrangements.length ? "any" : names,
    ...line,
  ]);
}

const titleOf = (section: string) =>
  section.startsWith("Silence at")
    ? `${section}: ${secondsOf(pace.quietMs.hasty)} of silence, ${secondsOf(pace.totalMs.hasty)} in all`
    : section;

/** A cell, whichever its dialect. */
const placeOf = ({ row, streams, arrangement, transport }: Cell) =>
  `${row.section}: ${row.says}; ${streams ? "streamed" : "whole"}, ${arrangementNames[arrangement]}, over ${transport}`;

/** `exceptions` are what was not so. */
function documentOf(exceptions: readonly string[], ofOutages: readonly OutageSeen[]): string {
  const sections = [...new Set(rows.map(({ section }) => section))];
  const head = [
    "fault of the first target",
    "next target",
    "caller of a whole answer gets",
    "caller of a stream gets",
    "first is called",
    "second is called",
    "billed",
  ];
  const shapes = Object.entries(errorShapes).map(([name, { status, openai, anthropic, google }]) => [
    name,
    String(status),
    `\`${openai.type}\`, ${openai.code === null ? "none" : `\`${openai.code}\``}`,
    `\`${anthropic}\``,
    `\`${google}\``,
  ]);
  return `# When an upstream fails

\`npm run faults\` generates this page. It plays every fault through real processes against the simulator, with the catalogue's default timeouts and circuit breakers
(5 s to connect; 30 s of silence in a stream, 10 s before its first token while another target is left; 90 s to a whole answer while another target is left; 10 minutes in all; 2 retries), and checks
every cell. \`npm test\` checks a selection of the same cells with shorter timeouts. Each fault is played for callers of all four dialects (openai-chat,
openai-responses, anthropic-messages, gemini), streamed and whole, and over HTTP, HTTPS with HTTP/1.1 and HTTPS with HTTP/2: ${allCells.length} cells. The transport makes no
difference, so the tables do not repeat it.

The first target has the fault and speaks the caller's dialect. The next target is healthy and speaks another dialect:

- **one target**: there is no next target.
- **two targets**: a second target of the same model.
- **two targets, resumed**: the same, with \`resume: true\`, \`deterministic: true\` and timeouts of ten seconds (to the head, to the first token, to the first content and
  between tokens). Runs over plain HTTP only.
- **a fallback, resumed**: another model in \`fallbacks\`, with the same settings.

The last two are the recommended configuration. With it, every fault on this page ends in a complete answer, except the caller's own errors. \`deterministic\` states that a
target gives the same answer to the same request, as the simulator does. Omit it if your targets do not: an answer that breaks after its first content is then resumed only
at a target with \`prefill\`, and only while it is plain text.

Before the first content, the request moves to the next target, or is retried at the only one after a pause; the caller does not notice. A fallback model is called only
after the model's own target used up its retries. The caller's own error is passed on at once, with the upstream's reason. After content, the stream ends with an error
event and no terminator, unless the answer is resumed. A stream that waits for longer than ten seconds gets keep-alives, so its status is 200 and a later error is an event.
The gateway does not wait for a Retry-After of more than five seconds: it calls the next target, or passes the Retry-After on to the caller (60 seconds at most). After
a 429 it does not use that credential at that target before the Retry-After is over (an hour at most); after a 5xx the circuit breaker decides.

"Billed" is the amount taken from the caller's budget. Failed requests cost nothing. If an upstream does not report its usage, an estimate by the answer is billed, and
\`sluice_tokens_total\` counts nothing. In every cell the next request for the same model was answered at once by the first target, healthy again. If the fault persists or the
target is blocked for a while, the next request was for another model at the same upstream.

${sections
  .map((section) => {
    const ours = rows.filter((row) => row.section === section);
    return `## ${titleOf(section)}\n\n${tableOf(head, ours.flatMap(linesOf))}\n`;
  })
  .join("\n")}
## An outage of a minute

A target is down for 60 s while 20 requests a second ask for its model over two workers; the next target is healthy. While a target's circuit breaker is open, the worker
requests the upstream's model list before it sends a generation as a probe. If the list succeeds and generations fail, each probe costs one generation, every four seconds.

${tableOf(
  ["the target while it is down", "requests", "unanswered", "calls while it was down", "used again after"],
  outages.map((outage, place) => {
    const { requests, failed, callsWhileDown, usedAgainMs } = ofOutages[place] as OutageSeen;
    return [outage, String(requests), String(failed), String(callsWhileDown), `${(usedAgainMs / 1_000).toFixed(1)} s`];
  }),
)}

## Error formats

Callers of anthropic-messages get 529 for _overloaded_, as from Anthropic. In a stream, an error is an event with the same body for openai-chat and gemini, after which the connection breaks; \`error\` and \`response.failed\` for openai-responses; \`error\` for
anthropic-messages. Retry-After is a header, for gemini also a \`RetryInfo\`.

${tableOf(["error", "status", "OpenAI: type, code", "Anthropic: type", "Google: status"], shapes)}
${exceptions.length === 0 ? "" : `\n## Not so when this was made\n\n${exceptions.map((exception) => `- ${exception}`).join("\n")}\n`}`;
}

const startedAt = performance.now();
const { played, secrets } = await play(allCells, pace);
const ofOutages: OutageSeen[] = [];
for (const outage of outages) ofOutages.push(await playOutage(outage, 60_000));
const complaintsBy = new Map(
  allCells.map((cell) => [cell, complaintsOf(cell, played.get(cell) as Played, pace, secrets)]),
);
const wrong = allCells.filter((cell) => complaintsBy.get(cell)?.length !== 0);
const costly = outages.filter((outage, place) => {
  const { failed, callsWhileDown, usedAgainMs } = ofOutages[place] as OutageSeen;
  return failed > 0 || callsWhileDown >= (outage === "500 to generations alone" ? 25 : 10) || usedAgainMs > 5_000;
});
writeFileSync(
  file,
  documentOf(
    [...new Set(wrong.map(placeOf)), ...costly.map((outage) => `An outage of a minute: ${outage}`)],
    ofOutages,
  ),
);
for (const cell of wrong)
  for (const complaint of complaintsBy.get(cell) ?? []) console.error(`${placeOf(cell)} (${cell.id}): ${complaint}`);
console.log(
  `${allCells.length} cells in ${Math.round((performance.now() - startedAt) / 1_000)} s, ${wrong.length + costly.length} not as they should be; docs/faults.md is written`,
);
process.exitCode = wrong.length + costly.length === 0 ? 0 : 1;
