/** The simulator's WebSockets: handshakes, the pace of answers, and their faults. */
import type { IncomingMessage, Server } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import { openaiErrorBody } from "../dialects/openai.ts";
import type { Journal, JournalEntry } from "../journal.ts";
import type { Outcome, Settings } from "../settings.ts";
import { geminiLive } from "./gemini.ts";
import { openaiRealtime } from "./openai.ts";
import type { SessionDialect, SimulatedSession } from "./session.ts";

const dialects = [openaiRealtime, geminiLive];
const messageBytesMax = 64 << 20;

export interface RealtimeOptions {
  key: string | undefined;
  journal: Journal;
  settingsOf(model: string): Outcome<Settings>;
}

/**
 * Serves sessions at the server's upgrade requests. Returns a function that breaks all connections.
 */
export function addRealtime(server: Server, { key, journal, settingsOf }: RealtimeOptions): () => void {
  const sockets = new WebSocketServer({ noServer: true, maxPayload: messageBytesMax });
  server.on("upgrade", (request, socket, head) => {
    const url = new URL(request.url ?? "/", "http://simulator");
    const sessionRequest = { path: url.pathname, query: url.searchParams, headers: request.headers };
    const dialect = dialects.find((one) => one.serves(sessionRequest.path));
    const refuse = (status: number, message: string) => refuseUpgrade(socket, status, message);
    const model = dialect?.modelOf(sessionRequest);
    const settings = settingsOf(model ?? "");
    const status = settings.kind === "ok" ? settings.value.faults.status : undefined;
    if (dialect === undefined) refuse(404, `There is no ${sessionRequest.path}.`);
    else if (key !== undefined && dialect.credentialOf(sessionRequest) !== key)
      refuse(401, "The credential is missing or wrong.");
    else if (model === "") refuse(400, "The address names no model.");
    else if (settings.kind === "bad") refuse(400, settings.fault);
    else if (status !== undefined) {
      journal.close(openEntry(journal, request, model ?? "", status), "fault");
      refuse(status, "The simulator was told to fail.");
    } else
      sockets.handleUpgrade(request, socket, head, (opened) =>
        serve(opened, request, dialect, model === undefined ? undefined : { model, settings: settings.value }),
      );
  });

  const serve = (
    socket: WebSocket,
    request: IncomingMessage,
    dialect: SessionDialect,
    named: { model: string; settings: Settings } | undefined,
  ) => {
    let session: SimulatedSession | undefined;
    let entry: JournalEntry | undefined;
    const begin = (model: string, settings: Settings) => {
      entry = openEntry(journal, request, model, 101);
      session = dialect.open(model, settings, portOf(socket, settings, entry));
    };
    const beginWith = (first: string) => {
      const model = dialect.modelIn?.(first) ?? "";
      const settings = settingsOf(model);
      if (settings.kind === "ok") begin(model, settings.value);
      else socket.close(1008, settings.fault.slice(0, 120));
    };
    socket.on("close", (code) => {
      if (entry !== undefined) journal.close(entry, code === 1000 || code === 1005 ? "completed" : "client-closed");
    });
    socket.on("error", () => undefined);
    socket.on("message", (bytes: Buffer, isBinary) => {
      if (session === undefined) beginWith(bytes.toString());
      session?.receive(bytes.toString(), isBinary);
    });
    if (named !== undefined) begin(named.model, named.settings);
  };

  return () => {
    for (const socket of sockets.clients) socket.terminate();
  };
}

const portOf = (socket: WebSocket, { rate, firstMs, faults }: Settings, entry: JournalEntry) => ({
  send: (message: object, isBinary = false) => socket.send(Buffer.from(JSON.stringify(message)), { binary: isBinary }),
  close: (code: number, reason: string) => socket.close(code, reason),
  play(messages: readonly object[], done: () => void) {
    let next = 0;
    const step = () => {
      if (socket.readyState !== socket.OPEN) return;
      if (faults.cut === next) {
        socket.terminate();
        return;
      }
      const message = messages[next++];
      if (message === undefined) {
        done();
        return;
      }
      entry.chunksSent++;
      // The next message waits until the socket took this one, so that a slow reader slows the
      // answer down.
      socket.send(JSON.stringify(message), () => {
        if (rate === 0) step();
        else setTimeout(step, 1_000 / rate);
      });
    };
    if (firstMs === 0) step();
    else setTimeout(step, firstMs);
  },
});

const openEntry = (journal: Journal, request: IncomingMessage, model: string, status: number): JournalEntry => {
  const { method = "GET", url = "/", headers } = request;
  const entry = journal.open({
    model,
    id: undefined,
    at: Date.now(),
    method,
    path: url,
    headers,
    bodyBytes: 0,
    bodySha256: "",
  });
  entry.status = status;
  return entry;
};

function refuseUpgrade(socket: Duplex, status: number, message: string): void {
  const body = openaiErrorBody({ status, message });
  socket.end(
    `HTTP/1.1 ${status} Refused\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}
