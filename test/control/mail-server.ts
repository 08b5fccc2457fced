/** A mail server that keeps what it gets: https://www.rfc-editor.org/rfc/rfc5321 */
import { EventEmitter, once } from "node:events";
import { type AddressInfo, createServer } from "node:net";

export interface MailServer extends AsyncDisposable {
  readonly url: string;
  /** The next mail that arrives, as it was sent. */
  next(): Promise<string>;
}

export async function startMailServer(): Promise<MailServer> {
  const mails: string[] = [];
  const arrived = new EventEmitter();
  const server = createServer((socket) => {
    let pending = "";
    let isMail = false;
    socket.on("error", () => {});
    socket.write("220 test\r\n");
    socket.on("data", (data) => {
      pending += data;
      for (
        let end = pending.indexOf(isMail ? "\r\n.\r\n" : "\r\n");
        end >= 0;
        end = pending.indexOf(isMail ? "\r\n.\r\n" : "\r\n")
      ) {
        const text = pending.slice(0, end);
        pending = pending.slice(end + (isMail ? 5 : 2));
        if (isMail) {
          mails.push(text);
          arrived.emit("mail");
        }
        isMail = !isMail && text === "DATA";
        socket.write(isMail ? "354 go on\r\n" : text === "QUIT" ? "221 bye\r\n" : "250 ok\r\n");
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async next() {
      if (mails.length === 0) await once(arrived, "mail");
      return mails.shift() as string;
    },
    async [Symbol.asyncDispose]() {
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
