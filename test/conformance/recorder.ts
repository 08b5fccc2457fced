/** Stands between the gateway and the simulator, and remembers what the gateway asked. */
import { once } from "node:events";
import { request as ask, createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface Recorder {
  readonly url: string;
  forwardTo(url: string): void;
  /**
   * The last request: its path and its body, as it was sent; "" when there was none since `forget`.
   */
  last(): string;
  forget(): void;
  close(): Promise<void>;
}

export async function startRecorder(): Promise<Recorder> {
  let target = "";
  let seen = "";
  // Responses carry the simulator's keep-alive header, so connections must last as long here.
  // Otherwise the server would close one that the gateway reuses.
  const server = createServer({ keepAliveTimeout: 120_000 }, (request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const body = Buffer.concat(parts);
      seen = `POST ${request.url}\n${body.toString("utf8")}`;
      const forwarded = ask(
        `${target}${request.url}`,
        { method: request.method, headers: request.headers },
        (answer) => {
          response.writeHead(answer.statusCode as number, answer.headers);
          answer.pipe(response);
          answer.on("error", () => response.destroy());
        },
      );
      forwarded.on("error", () => response.destroy());
      response.on("close", () => forwarded.destroy());
      forwarded.end(body);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    forwardTo(url) {
      target = url;
    },
    last: () => seen,
    forget() {
      seen = "";
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
