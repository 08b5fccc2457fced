/**
 * TLS in front of a plain server, with certificates of an authority that exists for tests
 * alone (test/support/tls, valid for a hundred years).
 */
import { readFileSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { constants, createSecureServer, type ServerHttp2Stream } from "node:http2";
import {
  type AddressInfo,
  connect,
  createServer as createPlainServer,
  type NetConnectOpts,
  type Server,
  type Socket,
} from "node:net";
import { join } from "node:path";
import { createServer, TLSSocket } from "node:tls";

const directory = join(import.meta.dirname, "tls");
export const tlsFiles = {
  caFile: join(directory, "ca.pem"),
  certificateFile: join(directory, "client.pem"),
  keyFile: join(directory, "client.key"),
};
/** For localhost and 127.0.0.1. */
export const serverFiles = { certificateFile: join(directory, "server.pem"), keyFile: join(directory, "server.key") };
export const serverCredentials = {
  key: readFileSync(serverFiles.keyFile),
  cert: readFileSync(serverFiles.certificateFile),
};

export type Protocol = "http/1.1" | "h2";

export interface TlsFront extends AsyncDisposable {
  port: number;
}

/**
 * Serves what a plain server at 127.0.0.1 serves, over TLS. HTTP/1.1 goes through byte by byte; an
 * HTTP/2 stream ends as the plain answer does, and is reset where that breaks.
 */
export const startTlsFront = (plainPort: number, protocol: Protocol): Promise<TlsFront> =>
  listening(protocol === "h2" ? http2Front(plainPort) : tunnelTo({ port: plainPort, host: "127.0.0.1" }));

/** Serves what a plain server serves, over TLS, byte by byte. */
export const startTlsTunnel = (target: NetConnectOpts): Promise<TlsFront> => listening(tunnelTo(target));

/** The same for Postgres, whose clients ask for TLS on the plain connection first. */
export const startPostgresFront = (target: NetConnectOpts): Promise<TlsFront> =>
  listening(
    createPlainServer((socket) =>
      socket.once("data", () => {
        socket.write("S");
        tunnel(new TLSSocket(socket, { isServer: true, ...serverCredentials }), target);
      }),
    ),
  );

async function listening(server: Server): Promise<TlsFront> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined).once("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

const tunnelTo = (target: NetConnectOpts): Server =>
  createServer({ ...serverCredentials, ALPNProtocols: ["http/1.1"] }, (secure) => tunnel(secure, target));

function tunnel(secure: TLSSocket, target: NetConnectOpts): void {
  const plain = connect(target);
  secure.on("error", () => plain.destroy()).once("close", () => plain.destroy());
  plain.on("error", () => secure.destroy()).once("close", () => secure.destroy());
  secure.pipe(plain).pipe(secure);
}

/** Headers that HTTP/2 does not have. */
const connectionHeaders = ["connection", "keep-alive", "transfer-encoding", "upgrade", "proxy-connection"];

function http2Front(plainPort: number): Server {
  const server = createSecureServer({ ...serverCredentials, allowHTTP1: false });
  server.on("stream", (stream: ServerHttp2Stream, headers) => {
    const own = Object.fromEntries(Object.entries(headers).filter(([name]) => !name.startsWith(":")));
    const plain = httpRequest({
      port: plainPort,
      host: "127.0.0.1",
      method: String(headers[":method"]),
      path: String(headers[":path"]),
      headers: own,
    });
    const broken = () => stream.destroyed || stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    plain.on("error", broken);
    plain.on("response", (answer) => {
      const kept = Object.fromEntries(
        Object.entries(answer.headers).filter(([name]) => !connectionHeaders.includes(name)),
      );
      if (!stream.destroyed) stream.respond({ ":status": answer.statusCode ?? 502, ...kept });
      answer.on("error", broken);
      answer.pipe(stream);
    });
    stream.on("error", () => plain.destroy()).once("close", () => plain.destroy());
    stream.pipe(plain);
  });
  return server as Server;
}
