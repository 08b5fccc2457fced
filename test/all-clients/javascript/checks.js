/**
 * The common part of the JavaScript scripts: questions and reports. The environment names the
 * gateway, the key and the models.
 */
import assert from "node:assert/strict";
import { inspect } from "node:util";

const {
  SLUICE_URL: url = "",
  SLUICE_KEY: key = "",
  SLUICE_MODEL: model = "",
  SLUICE_SLOW_MODEL: slow = "",
  SLUICE_BROKEN_MODEL: broken = "",
  SLUICE_PAUSED_MODEL: paused = "",
  SLUICE_REASONER: reasoner = "",
} = process.env;

export { broken, key, model, paused, reasoner, slow, url };

export const greeting = "You said: hello there\nThis is the simulator: the same words always get the same answer.";
export const pausedText = "You said:";
const failure = "The upstream of this model failed";
export const question = 'Use get_weather for "Paris".';

/** The JSON schema of get_weather's arguments. */
export const schema = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};

/** @param {{ city: string }} input */
export function getWeather({ city }) {
  assert.equal(city, "Paris");
  return "It rains.";
}

/**
 * Fails unless the answer repeats what get_weather returned.
 * @param {unknown} text
 */
export const assertUsedTool = (text) => assert.match(String(text), /The tool get_weather returned: .*It rains\./s);

/**
 * Fails unless the texts of a stream have content, and then an error with the gateway's words.
 * @param {AsyncIterable<string | undefined>} texts
 */
export async function assertBroken(texts) {
  let text = "";
  try {
    for await (const part of texts) text += part ?? "";
  } catch (error) {
    assert.ok(text !== "", `no content before the error: ${error}`);
    assert.match(inspect(error), new RegExp(failure));
    return;
  }
  assert.fail(`a broken answer passes as a whole one: ${text}`);
}

/**
 * Fails unless the texts of a stream with keep-alives are whole.
 * @param {AsyncIterable<string | undefined>} texts
 */
export async function assertPaused(texts) {
  let text = "";
  for await (const part of texts) text += part ?? "";
  assert.equal(text, pausedText);
}

/**
 * Runs every check, prints one line of JSON for each, and exits with 1 if one failed.
 * @param {Record<string, () => Promise<void>>} checks
 */
export async function run(checks) {
  for (const [check, body] of Object.entries(checks)) {
    const began = performance.now();
    let error = null;
    try {
      await body();
    } catch (caught) {
      error = String(caught);
      process.exitCode = 1;
      console.error(caught);
    }
    console.log(JSON.stringify({ check, error, ms: Math.round(performance.now() - began) }));
  }
}
