// @ts-nocheck: all-clients.ts installs its packages, beside the project.
/**
 * Speech and its transcript: OpenAI's JavaScript client, and the AI SDK's with the argument
 * `ai-sdk`.
 */
import assert from "node:assert/strict";
import { key, run, url } from "./checks.js";

const baseURL = `${url}/v1`;
/** The simulator begins its transcripts like this. */
const isHeard = (text) => assert.match(text, /^I heard /);
const isMp3 = (bytes) => assert.equal(Buffer.from(bytes).toString("latin1", 0, 3), "ID3");

async function openaiChecks() {
  const { default: OpenAI, toFile } = await import("openai");
  const client = new OpenAI({ apiKey: key, baseURL, maxRetries: 0 });
  const speak = () => client.audio.speech.create({ model: "speech", voice: "alloy", input: "hello there" });
  const recording = async () => ({ model: "transcript", file: await toFile(await speak(), "hello.mp3") });
  return {
    speech: async () => isMp3(await (await speak()).arrayBuffer()),
    transcription: async () => isHeard((await client.audio.transcriptions.create(await recording())).text),
    "streamed transcription": async () => {
      let text = "";
      for await (const event of await client.audio.transcriptions.create({ ...(await recording()), stream: true }))
        if (event.type === "transcript.text.delta") text += event.delta;
      isHeard(text);
    },
    translation: async () =>
      assert.match((await client.audio.translations.create(await recording())).text, /^In English: I heard /),
  };
}

async function aiSdkChecks() {
  const [{ generateSpeech, transcribe }, { createOpenAI }] = await Promise.all([
    import("ai"),
    import("@ai-sdk/openai"),
  ]);
  const provider = createOpenAI({ apiKey: key, baseURL });
  const speak = async () => {
    const { audio } = await generateSpeech({ model: provider.speech("speech"), text: "hello there", voice: "alloy" });
    return audio.uint8Array;
  };
  return {
    speech: async () => isMp3(await speak()),
    transcription: async () => {
      const { text } = await transcribe({ model: provider.transcription("transcript"), audio: await speak() });
      isHeard(text);
    },
  };
}

await run(await (process.argv[2] === "ai-sdk" ? aiSdkChecks : openaiChecks)());
