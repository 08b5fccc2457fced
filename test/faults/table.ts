/** The fault suite at the limits that are the catalogue's defaults: `npm run faults` plays it, which takes some ten minutes, and writes docs/faults.md. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Cell, cells, type Expected, errorShapes, expectedOf, type Pace, type Row, rows, type Span } from "./cases.ts";
import { complaintsOf } from "./check.ts";
import { type OutageSeen, outages, playOutage } from "./outage.ts";
import { type Played, play } from "./play.ts";

const pace: Pace = { quietMs: { patient: 30_000, hasty: 5_000 }, totalMs: { patient: 600_000, hasty: 20_000 }, keepAliveMs: 10_000, isDefault: true };
const file = join(import.meta.dirname, "..", "..", "docs", "faults.md");

type Ways = [whole: Expected, streamed: Expected];

/** The same for every dialect, but for how an error reads. */
const waysOf = (row: Row, pair: boolean): Ways => {
  const [dialect = "openai-chat"] = row.dialects;
  return [false, true].map((streams) => expectedOf({ id: "", place: rows.indexOf(row), row, dialect, streams, pair }, pace)) as Ways;
};

const secondsOf = (ms: number) => (ms >= 60_000 ? `${ms / 60_000} min` : `${ms / 1_000} s`);
const timeOf = ([least, most]: Span) =>
  most === 0 ? "at once" : most - least <= 300 && least >= 1_000 ? secondsOf(least) : `${least / 1_000}–${most / 1_000} s`;

function gotText({ got, tookMs }: Expected): string {
  if (got.kind === "whole") return got.loses ? "the answer without that event" : "the answer";
  const { error, seconds, where, content } = got;
  const after = tookMs[0] >= 1_000 && seconds === undefined ? ` after ${secondsOf(tookMs[0])}` : "";
  if (where === "stream") return `${content ? "what came" : "signs of life"}, then _${error}_ in the stream${after}`;
  const [least = 0, most = 0] = seconds ?? [];
  return `${errorShapes[error].status} _${error}_${seconds === undefined ? "" : `, Retry-After: ${least === most ? least : "about 40"}`}${after}`;
}

function callsText({ pauses }: Expected): string {
  if (pauses.length === 0) return "once";
  const same = new Set(pauses.map(timeOf)).size === 1 && pauses.length > 1;
  return `${pauses.length === 1 ? "twice" : `${pauses.length + 1} times`}, after ${same ? `${timeOf(pauses[0] as Span)} each` : pauses.map(timeOf).join(" and ")}`;
}

const secondText = ({ second }: Expected) => (second === undefined ? "not" : second[1] === 0 ? "at once" : `after ${timeOf(second)}`);
const billedText = ({ billed }: Expected) => ({ answer: "the answer", nothing: "nothing", reservation: "its reservation" })[billed];

/** What is said of a whole answer and of a streamed one, where they differ. */
function bothWays([whole, streamed]: Ways, textOf: (expected: Expected) => string): string {
  const texts = [textOf(whole), textOf(streamed)];
  return texts[0] === texts[1] ? (texts[0] as string) : `whole: ${texts[0]}; streamed: ${texts[1]}`;
}

/** Padded as formatters do it. */
function tableOf(head: string[], lines: string[][]): string {
  const widths = head.map((title, column) => Math.max(title.length, ...lines.map((line) => (line[column] as string).length)));
  const lineOf = (line: string[]) => `| ${line.map((text, column) => text.padEnd(widths[column] as number)).join(" | ")} |`;
  return [lineOf(head), `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`, ...lines.map(lineOf)].join("\n");
}

function linesOf(row: Row): string[][] {
  const lines = [false, true].map((pair) => {
    const ways = waysOf(row, pair);
    return [...ways.map(gotText), bothWays(ways, callsText), pair ? bothWays(ways, secondText) : "–", bothWays(ways, billedText)];
  });
  const [alone = [], pair = []] = lines;
  const isSame = alone.every((text, column) => column === 3 || text === pair[column]) && pair[3] === "not";
  return isSame
    ? [[row.says, "1 or 2", ...pair]]
    : [
        [row.says, "1", ...alone],
        ["", "2", ...pair],
      ];
}

const titleOf = (section: string) =>
  section.startsWith("Silence at") ? `${section}: ${secondsOf(pace.quietMs.hasty)} of silence, ${secondsOf(pace.totalMs.hasty)} in all` : section;

/** A cell, whichever its dialect. */
const placeOf = ({ row, streams, pair }: Cell) => `${row.section}: ${row.says}; ${streams ? "streamed" : "whole"}, ${pair ? "two targets" : "one target"}`;

/** `exceptions` are what was not so. */
function documentOf(exceptions: readonly string[], ofOutages: readonly OutageSeen[]): string {
  const sections = [...new Set(rows.map(({ section }) => section))];
  const head = [
    "fault of the first target",
    "targets",
    "caller of a whole answer gets",
    "caller of a stream gets",
    "first is asked",
    "second is asked",
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

Made by \`npm run faults\`, which plays all of it through real processes against the simulator, at the limits and circuits that a catalogue has when it says nothing
(5 s to connect, 30 s to the head, to the first token and between tokens, 10 minutes in all, 2 retries), and checks every cell; \`npm test\` checks the same cells with
shorter limits of silence. Each fault is played for callers of all four dialects (openai-chat, openai-responses, anthropic-messages, gemini), whole and streamed, with one
target and with two: ${cells.length} cells. The first target speaks the caller's dialect, the second another one and is healthy. A host that swallows packets, for which the 5 s to connect
are, is not among them.

Until the first content nothing is lost: the request goes on to the next target, or once more to the only one after a pause, and the caller sees none of it. What is
the caller's own fault is passed on at once, with the upstream's reason. After content the error is told in the stream, and the stream has no end that looks like one; a
model with \`splice\` goes on instead. A stream that waits for longer than ten seconds is kept alive, so that its status is 200 from then on and an error is told in it.
A Retry-After of more than five seconds is not waited for where no other target is left: the caller is told, and told 60 seconds at most.

Billed is what the caller's budget loses. What fails costs nothing. Where nobody knows what was used, because an upstream doesn't tell, the
reservation stays; \`sluice_tokens_total\` counts nothing then. In every cell the next request for the same model, healthy again, or where the fault stays for another model
at the same upstream, was answered whole at once, and by the first target.

${sections
  .map((section) => {
    const ours = rows.filter((row) => row.section === section);
    return `## ${titleOf(section)}\n\n${tableOf(head, ours.flatMap(linesOf))}\n`;
  })
  .join("\n")}
## An outage of a minute

What this run saw of a target that is down for 60 s while 20 requests a second ask for its model over two workers, with a healthy target behind it. While a target's
circuit is open, its upstream is asked for the list of its models before a generation is risked; only where that is answered well and generations are not, each proof
costs one, every four seconds.

${tableOf(
  ["the target, while it is down", "requests", "not answered", "calls while it was down", "used again after"],
  outages.map((outage, place) => {
    const { requests, failed, callsWhileDown, usedAgainMs } = ofOutages[place] as OutageSeen;
    return [outage, String(requests), String(failed), String(callsWhileDown), `${(usedAgainMs / 1_000).toFixed(1)} s`];
  }),
)}

## How errors read

In a stream: an event with the same body for openai-chat; \`error\` and \`response.failed\` for openai-responses; \`error\` for anthropic-messages; for gemini an event
with the same body, after which the connection breaks. Retry-After is a header, for gemini also a \`RetryInfo\`.

${tableOf(["error", "status", "OpenAI: type, code", "Anthropic: type", "Google: status"], shapes)}
${exceptions.length === 0 ? "" : `\n## Not so when this was made\n\n${exceptions.map((exception) => `- ${exception}`).join("\n")}\n`}`;
}

const startedAt = performance.now();
const { played, secrets } = await play(pace);
const ofOutages: OutageSeen[] = [];
for (const outage of outages) ofOutages.push(await playOutage(outage, 60_000));
const complaintsBy = new Map(cells.map((cell) => [cell, complaintsOf(cell, played.get(cell) as Played, pace, secrets)]));
const wrong = cells.filter((cell) => complaintsBy.get(cell)?.length !== 0);
const costly = outages.filter((outage, place) => {
  const { failed, callsWhileDown, usedAgainMs } = ofOutages[place] as OutageSeen;
  return failed > 0 || callsWhileDown >= (outage === "500 to generations alone" ? 25 : 10) || usedAgainMs > 5_000;
});
writeFileSync(file, documentOf([...new Set(wrong.map(placeOf)), ...costly.map((outage) => `An outage of a minute: ${outage}`)], ofOutages));
for (const cell of wrong) for (const complaint of complaintsBy.get(cell) ?? []) console.error(`${placeOf(cell)} (${cell.id}): ${complaint}`);
console.log(
  `${cells.length} cells in ${Math.round((performance.now() - startedAt) / 1_000)} s, ${wrong.length + costly.length} not as they should be; docs/faults.md is written`,
);
process.exitCode = wrong.length + costly.length === 0 ? 0 : 1;
