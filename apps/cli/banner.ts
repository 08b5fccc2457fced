/** What a person sees when the gateway is up: enough to make the first call by copying it. */
import { relative } from "node:path";
import type { Ready } from "./state.ts";

/** `model` is one that the key may use. The commands work as they stand, from the checkout's directory. */
export function bannerOf({ baseUrl, key, operationsUrls }: Ready, model: string, logs: string): string {
  const body = JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] });
  const client = `new OpenAI({ baseURL: "${baseUrl}", apiKey: "${key}" })`;
  const call = `chat.completions.create({ model: "${model}", messages: [{ role: "user", content: "Hello" }], stream: true })`;
  const script = `import OpenAI from "openai"; for await (const { choices } of await ${client}.${call}) process.stdout.write(choices[0]?.delta.content ?? "")`;
  return `
Sluice is ready.

  base address  ${baseUrl}
                ${baseUrl.replace(/\/v1$/, "")} for Anthropic's and Google's clients
  API key       ${key}
  operations    ingress ${operationsUrls.ingress}  worker ${operationsUrls.worker}  (/healthz /readyz /metrics)
  logs          ${logs}

Try it with curl:

  curl ${baseUrl}/chat/completions -H "Authorization: Bearer ${key}" -H "Content-Type: application/json" -d '${body}'

or with the official client (in this directory, where it is installed):

  ${relative(process.cwd(), process.execPath)} --input-type=module -e '${script}'

Ctrl-C stops it; it finishes what is under way first.
`;
}
