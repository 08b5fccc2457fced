/** The banner of a running gateway, with commands for the first call to copy. */
import { relative } from "node:path";
import type { Ready } from "./state.ts";

/** The key must allow `model`. The commands work unchanged in the checkout's directory. */
export function bannerOf(
  { baseUrl, key, consoleUrl, operationsUrls }: Omit<Ready, "pids">,
  model: string,
  logs: string,
): string {
  const body = JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] });
  const client = `new OpenAI({ baseURL: "${baseUrl}", apiKey: "${key}" })`;
  const call = `chat.completions.create({ model: "${model}", messages: [{ role: "user", content: "Hello" }], stream: true })`;
  const script = `import OpenAI from "openai"; for await (const { choices } of await ${client}.${call}) process.stdout.write(choices[0]?.delta.content ?? "")`;
  return `
Sluice is ready.

  console       ${consoleUrl}
  base URL      ${baseUrl}
                ${baseUrl.replace(/\/v1$/, "")} for Anthropic and Google clients
  API key       ${key}
  operations    ingress ${operationsUrls.ingress}  worker ${operationsUrls.worker}  control ${operationsUrls.control}
                (/healthz /readyz /metrics)
  logs          ${logs}

Try it with curl:

  curl ${baseUrl}/chat/completions -H "Authorization: Bearer ${key}" -H "Content-Type: application/json" -d '${body}'

Or with the official OpenAI client, which is installed in this directory:

  ${relative(process.cwd(), process.execPath)} --input-type=module -e '${script}'

Press Ctrl-C to stop. Running requests finish first.
`;
}
