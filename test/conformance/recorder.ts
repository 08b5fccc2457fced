/** Stands between the gateway and the simulator, and remembers what the gateway asked. */
import { request as ask } from "node:http";
import { startScriptedUpstream } from "../support/upstream.ts";

export interface Recorder extends AsyncDisposable {
  readonly url: string;
  forwardTo(url: string): void;
  /**
   * The last request: its path and its body, as it was sent; "" when there was none since `forget`.
   */
  last(): string;
  forget(): void;
}

export async function startRecorder(): Promise<Recorder> {
  let target = "";
  const server = await startScriptedUpstream((response, { method, path, headers, body }) => {
    const forwarded = ask(`${target}${path}`, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode as number, answer.headers);
      answer.pipe(response);
      answer.on("error", () => response.destroy());
    });
    forwarded.on("error", () => response.destroy());
    response.on("close", () => forwarded.destroy());
    forwarded.end(body);
  });
  return {
    url: server.origin,
    forwardTo(url) {
      target = url;
    },
    last() {
      const request = server.requests.at(-1);
      return request === undefined ? "" : `POST ${request.path}\n${request.body}`;
    },
    forget() {
      server.requests.length = 0;
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}
