/** Servers of TCP that tests put in the place of an upstream or a proxy, and free ports. */
import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

export interface TcpServer extends AsyncDisposable {
  readonly port: number;
}

/** Serves on a port of its own; its end closes all connections. */
export async function startTcpServer(serve: (socket: Socket) => void): Promise<TcpServer> {
  const server = createServer((socket) => serve(socket.on("error", () => undefined)));
  return disposable(server);
}

/** Reads, and never answers. */
export const startSilentServer = () => startTcpServer((socket) => void socket.resume());

/** A proxy whose every tunnel leads to this port, with the names that it was asked for. */
export async function startTunnelProxy(
  targetPort: number,
): Promise<TcpServer & { tunnels: string[]; forwards: string[] }> {
  const tunnels: string[] = [];
  const forwards: string[] = [];
  const server = createHttpServer(({ url = "" }, response) => {
    forwards.push(url);
    response.end("forwarded");
  });
  server.on("connect", ({ url = "" }, client) => {
    tunnels.push(url);
    const onward = connect(targetPort, "127.0.0.1", () => {
      client.write("HTTP/1.1 200 OK\r\n\r\n");
      onward.pipe(client).pipe(onward);
    });
    client.on("error", () => onward.destroy());
    onward.on("error", () => client.destroy());
  });
  return { ...(await disposable(server)), tunnels, forwards };
}

async function disposable(server: Server): Promise<TcpServer> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

/** The ports that this process was told are free. */
const issuedPorts = new Set<number>();

/**
 * A free port from below the range of ephemeral ports, so that no other process is given it
 * meanwhile.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    const server = createServer().listen(port, "127.0.0.1");
    const isFree = await once(server, "listening").then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    server.close();
    await once(server, "close");
    if (issuedPorts.has(port)) continue;
    issuedPorts.add(port);
    return port;
  }
}
