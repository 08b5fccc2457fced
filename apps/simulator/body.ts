/**
 * Writes the body of a response piece by piece. The chunks of HTTP/1.1 (RFC 9112, 7.1) are framed here and go to the socket in one write each:
 * at fixed pace these writes are all that a simulator does, and `response.write` makes each of them a third dearer.
 */
import type { ServerResponse } from "node:http";

export interface Body {
  /** False when what was written waits for the reader: the caller then writes no more before `onceWritable`. An empty text is left out, for it would end the body. */
  write(text: string): boolean;
  /** Calls back once, when what was written has gone; never, if the connection is lost before. */
  onceWritable(resume: () => void): void;
  /** All that is written in `act` leaves together. */
  together(act: () => void): void;
  /** Ends the body cleanly. */
  end(): void;
  /** Resets the connection when the system has taken all that was written; a reader that is megabytes behind loses what it has not read. */
  reset(): void;
}

/** The head must be flushed already, with `transfer-encoding: chunked`. */
export function createBody(response: ServerResponse): Body {
  /** There is none while the response waits for an earlier one on a pipelined connection. */
  const socket = () => (response.socket?.destroyed ? undefined : (response.socket ?? undefined));
  return {
    write(text) {
      if (text === "") return true;
      const direct = socket();
      if (direct === undefined) return response.write(text);
      return direct.write(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`);
    },
    onceWritable(resume) {
      (socket() ?? response).once("drain", resume);
    },
    together(act) {
      const direct = socket();
      direct?.cork();
      act();
      direct?.uncork();
    },
    end() {
      response.end();
    },
    reset() {
      const direct = socket();
      if (direct === undefined) response.destroy();
      else direct.write("", () => direct.resetAndDestroy());
    },
  };
}
