/** Chooses the tools that an answer calls, and their inputs. */
import { type Chunks, chunksOf, fillerOf, joined, seedOf } from "./chunks.ts";
import { exampleOf } from "./example.ts";
import type { Question, Tool } from "./question.ts";

export interface Call {
  id: string;
  tool: Tool;
  /** JSON or free text, depending on the tool. */
  input: Chunks;
}

/** Context that agents add to the user's words. */
const context = /<(system[a-z_-]*)>[\s\S]*?<\/\1>/g;

/** The most calls of one answer. */
const callsMax = 16;

const numberWords = ["", "once", "twice", "thrice"];

/**
 * The calls of an answer; none for a text answer. After tool results there is none, so that a loop
 * of calls always ends. The answer calls the tools that the user's last turn names. If it names
 * none but a call is required or mentioned ("call", "tool"), it calls the first tool, or all of
 * them "in parallel". A single tool is called as often as the user says ("twice", "3 times"). Texts
 * in double quotes become arguments, in order, first those after the tool's name. If a tool has
 * required arguments, it gets only those.
 */
export function callsOf(question: Question, choice: number): Call[] {
  const { tools, calling, toolResults, parallelCalls } = question;
  const userText = question.userText.replaceAll(context, "");
  if (calling === "none" || tools.length === 0 || toolResults.length > 0) return [];
  const named = toolsNamedIn(userText, tools);
  const wanted = calling === "required" || named.length > 0 || /\b(call|calls|tools?)\b/i.test(userText);
  if (!wanted) return [];
  const chosen = named.length > 0 ? named : /\b(parallel|all)\b/i.test(userText) ? tools : tools.slice(0, 1);
  const times = chosen.length === 1 ? timesIn(userText) : 1;
  const called = chosen
    .flatMap((tool) => Array.from({ length: times }, () => tool))
    .slice(0, parallelCalls ? callsMax : 1);
  const texts = quotedIn(userText, chosen[0]?.name ?? "");
  return called.map((tool, index) => ({
    id: `call_${question.digest.slice(0, 20)}${choice.toString(16).padStart(2, "0")}${index.toString(16).padStart(2, "0")}`,
    tool,
    input: chunksOf(inputOf(tool, seedOf(userText) + 31 * choice + index, texts)),
  }));
}

/** The texts in double quotes after the last mention of the tool, or else in the whole text. */
function quotedIn(text: string, toolName: string): string[] {
  const quoted = (part: string) => [...part.matchAll(/"([^"]{1,200})"/g)].map((match) => match[1] ?? "");
  const behind = quoted(text.slice(Math.max(0, text.toLowerCase().lastIndexOf(toolName.toLowerCase()))));
  return behind.length > 0 ? behind : quoted(text);
}

function inputOf(tool: Tool, seed: number, texts: string[]): string {
  if (tool.takes === "text") return texts.shift() ?? joined(fillerOf(6, seed)).trim();
  const example = exampleOf(tool.schema, { seed, texts, sparing: true });
  return JSON.stringify(example.kind === "example" ? example.value : {});
}

function toolsNamedIn(text: string, tools: Tool[]): Tool[] {
  const heard = text.toLowerCase();
  const isPartOfName = (character: string | undefined) => character !== undefined && /[a-z0-9_-]/.test(character);
  const places = tools.map((tool) => {
    const name = tool.name.toLowerCase();
    let at = heard.indexOf(name);
    while (at >= 0 && (isPartOfName(heard[at - 1]) || isPartOfName(heard[at + name.length])))
      at = heard.indexOf(name, at + 1);
    return { tool, at };
  });
  return places
    .filter(({ at }) => at >= 0)
    .sort((one, other) => one.at - other.at)
    .map(({ tool }) => tool);
}

function timesIn(text: string): number {
  const counted = /\b(\d{1,3}) (?:times|calls)\b/i.exec(text);
  if (counted) return Math.max(1, Math.min(callsMax, Number(counted[1])));
  const word = /\b(once|twice|thrice)\b/i.exec(text)?.[1]?.toLowerCase();
  if (word !== undefined) return numberWords.indexOf(word);
  return /\bparallel\b/i.test(text) ? 2 : 1;
}
