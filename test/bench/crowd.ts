/** Very many callers at low cost: requests pipelined over a few connections (HTTP/1.1). */
import { once } from "node:events";
import { connect, type Socket } from "node:net";

export interface Crowd {
  /** How many were answered so far. */
  readonly seen: number;
  /**
   * Settles when all are answered; resolves to the number of statuses other than 200. Rejects after
   * `msMax`, and when a connection breaks.
   */
  answered(msMax: number): Promise<number>;
  leave(): void;
}

const perConnection = 1_000;
const statusLength = "HTTP/1.1 200".length;

/** Sends the same request `count` times, and resolves when all are on their way. */
export async function gather(url: string, request: string, count: number): Promise<Crowd> {
  const { hostname, port } = new URL(url);
  const sockets: Socket[] = [];
  const answers: Promise<number>[] = [];
  let seen = 0;
  for (let sent = 0; sent < count; sent += perConnection) {
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    await once(socket, "connect");
    sockets.push(socket);
    const portion = Math.min(perConnection, count - sent);
    answers.push(answersOf(socket, portion, () => seen++));
    await new Promise<void>((resolve) => socket.write(request.repeat(portion), () => resolve()));
  }
  for (const answer of answers) answer.catch(() => {});
  return {
    get seen() {
      return seen;
    },
    answered: async (msMax) => {
      const timeout = AbortSignal.timeout(msMax);
      const late = new Promise<never>((_, reject) =>
        timeout.addEventListener("abort", () => reject(new Error(`not all were answered within ${msMax} ms`))),
      );
      const counts = await Promise.race([Promise.all(answers), late]);
      return counts.reduce((sum, one) => sum + one, 0);
    },
    leave() {
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** The number of statuses other than 200 among `count` responses. */
function answersOf(socket: Socket, count: number, onAnswer: () => void): Promise<number> {
  return new Promise((resolve, reject) => {
    let seen = 0;
    let bad = 0;
    let tail = "";
    socket.on("data", (data) => {
      const text = tail + data.toString("latin1");
      let at = text.indexOf("HTTP/1.1 ");
      let from = 0;
      while (at >= 0 && at + statusLength <= text.length) {
        if (!text.startsWith("200", at + 9)) bad++;
        seen++;
        onAnswer();
        from = at + statusLength;
        at = text.indexOf("HTTP/1.1 ", from);
      }
      tail = text.slice(Math.max(from, text.length - statusLength + 1));
      if (seen === count) resolve(bad);
    });
    socket.on("error", reject);
    socket.on("close", () => reject(new Error(`a connection was closed after ${seen} answers of ${count}`)));
  });
}
