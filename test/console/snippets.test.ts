/**
 * Code and settings that people paste: each is syntactically right, and what Node or a shell can
 * run answers.
 */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, test } from "node:test";
import {
  clientNames,
  clientsFor,
  dialectOf,
  kindOf,
  kinds,
  requestCode,
  type Snippet,
  type SnippetInput,
  snippetsOf,
} from "../../apps/console/parts/client-code.ts";
import { dialects, type Settings, type Turn } from "../../apps/console/playground/conversation.ts";
import { modules } from "../../apps/console/playground/dialects.ts";
import { catalogueOf, startGateway } from "../support/gateway.ts";

const root = join(import.meta.dirname, "..", "..");
const gateway = await startGateway({
  catalogue: catalogueOf([
    { id: "sim-text", model: "sim-text;rate=0;first=0" },
    { id: "sim-image", model: "sim-image", queue: "image" },
    { id: "sim-embedding", model: "sim-embedding" },
    { id: "sim-speech", model: "sim-speech;rate=0" },
    { id: "sim-moderation", model: "sim-moderation" },
    { id: "sim-rerank", model: "sim-rerank" },
  ]).replace("dialect: openai-chat,", "dialect: openai-chat, alsoSpeaks: [openai-images],"),
});
after(() => gateway[Symbol.asyncDispose]());

const prompt = `Say "it's" \\ $HOME \`x\` 'twice', then ünïcode`;
const inputFor = (model: string, more: Partial<SnippetInput> = {}): SnippetInput => ({
  baseUrl: gateway.url,
  key: gateway.key,
  model,
  prompt,
  dialect: "openai-chat",
  ...more,
});

/** Fails unless the program ends with 0; returns what it wrote. */
async function output(command: string, args: string[], input: string): Promise<string> {
  const child = spawn(command, args, { cwd: root, stdio: ["pipe", "pipe", "pipe"] });
  child.stdin.end(input);
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  assert.equal(code, 0, `${input}\n${stderr}\n${stdout}`);
  return stdout;
}
const runJavaScript = (code: string) => output(process.execPath, ["--input-type=module", "-"], code);
const runShell = (code: string) => output("sh", [], code.replace("curl ", "curl -sS --fail-with-body "));

const all = kinds.flatMap((kind) =>
  clientsFor(kind).flatMap((client) =>
    dialects.flatMap((dialect) => snippetsOf(client, kind, inputFor("sim-text", { dialect }))),
  ),
);

const schema = { type: "object", properties: { city: { type: "string" } }, additionalProperties: false };
const settings: Settings = {
  model: "sim-text",
  system: prompt,
  tools: [{ name: "get_weather", description: 'It\'s "the" weather.', parameters: schema }],
  effort: "low",
  temperature: 0.5,
  maxTokens: 4_000,
};
const pixel =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
const turns: Turn[] = [{ role: "user", text: prompt, images: [pixel] }];
const codeOf = (language: "curl" | "python" | "javascript", dialect: (typeof dialects)[number], more?: Settings) =>
  requestCode(
    language,
    dialect,
    { baseUrl: gateway.url, key: gateway.key },
    modules[dialect].requestOf(turns, more ?? settings),
  );

const ofFile = (snippets: Snippet[], end: string) => snippets.filter(({ file }) => file?.endsWith(end));

test("shell commands, JSON and JavaScript are syntactically right", async () => {
  const snippets = [
    ...all,
    ...dialects.flatMap((dialect) => [...codeOf("curl", dialect), ...codeOf("javascript", dialect)]),
  ];
  const commands = snippets.filter(({ file }) => file === null).map(({ code }) => code);
  assert.ok(commands.length > 20);
  await output("sh", ["-n"], commands.join("\n"));
  for (const { code } of ofFile(snippets, ".json")) JSON.parse(code);
  const modulesOfAll = ofFile(snippets, ".mjs");
  assert.ok(modulesOfAll.length > 10);
  // Compiles without running: imports are looked up only after the whole text is read.
  // Creating a function compiles its text without running it.
  for (const { code } of modulesOfAll)
    assert.doesNotThrow(() => new Function(`return async () => {${code.replaceAll(/^import .*$/gm, "")}\n}`), code);
});

const python = spawnSync("python3", ["-c", "import tomllib"]);
test("Python and TOML are syntactically right", { skip: python.status !== 0 && "needs Python 3.11" }, async () => {
  const snippets = [...all, ...dialects.flatMap((dialect) => codeOf("python", dialect))];
  const files = snippets.filter(({ file }) => file?.endsWith(".py") || file?.endsWith(".toml"));
  assert.ok(files.length > 10);
  const check =
    "import ast, json, sys, tomllib\nfor file, code in json.load(sys.stdin):\n    (ast.parse if file.endswith('.py') else tomllib.loads)(code)";
  await output("python3", ["-c", check], JSON.stringify(files.map(({ file, code }) => [file, code])));
  const [images] = codeOf("python", "gemini");
  assert.match(images?.code ?? "", /b64decode\("iVBOR/);
});

test("the JavaScript clients answer", async () => {
  for (const client of ["openai-javascript", "anthropic-javascript", "google-javascript"] as const) {
    const [file] = ofFile(snippetsOf(client, "chat", inputFor("sim-text")), ".mjs");
    assert.ok((await runJavaScript(file?.code ?? "")).includes(prompt), client);
  }
});

test("curl answers in every dialect", async () => {
  for (const dialect of dialects) {
    const [command] = snippetsOf("curl", "chat", inputFor("sim-text", { dialect }));
    const answer = await runShell(command?.code ?? "");
    assert.ok(answer.includes(JSON.stringify(prompt).slice(1, -1)), `${dialect}: ${answer}`);
  }
});

test("requests of the playground run as curl and JavaScript", async () => {
  for (const dialect of dialects) {
    const [command] = codeOf("curl", dialect);
    assert.match(await runShell(command?.code ?? ""), /^data: \{/m, dialect);
    const [file] = codeOf("javascript", dialect);
    assert.match(await runJavaScript(file?.code ?? ""), /ünïcode/, dialect);
  }
});

test("operations besides conversations answer", async () => {
  for (const kind of ["image", "embedding", "speech", "moderation", "rerank"] as const) {
    const [command] = snippetsOf("curl", kind, inputFor(`sim-${kind}`));
    const answer = await runShell((command?.code ?? "").replace("speech.mp3", "/dev/null"));
    assert.ok(kind === "speech" || JSON.parse(answer), kind);
    if (kind === "rerank") continue;
    const [file] = ofFile(snippetsOf("openai-javascript", kind, inputFor(`sim-${kind}`)), ".mjs");
    await runJavaScript((file?.code ?? "").replaceAll(/"(image\.png|speech\.mp3)"/g, '"/dev/null"'));
  }
});

test("every model has the kind of its capabilities, and every client a dialect or all of them", () => {
  assert.equal(kindOf(["text", "streaming", "image"]), "chat");
  assert.equal(kindOf(["image"]), "image");
  assert.equal(kindOf(["realtime"]), undefined);
  assert.deepEqual(
    clientsFor("chat").filter((client) => dialectOf(client) === undefined),
    ["curl"],
  );
  assert.deepEqual(clientsFor("chat"), Object.keys(clientNames));
});
