/**
 * Writes the body of a response chunk by chunk. Frames the chunks of HTTP/1.1 (RFC 9112, 7.1)
 * itself and writes each to the socket in one write: at a fixed pace, writes are all that a
 * simulator does, and `response.write` makes each a third more expensive.
 */
import type { ServerResponse } from "node:http";

export interface Body {
  /**
   * False if the reader is slow: write no more before `onceWritable`. An empty text is ignored,
   * because it would end the body.
   */
  write(text: string): boolean;
  /** Calls back once, when everything is written; never if the connection is lost before. */
  onceWritable(resume: () => void): void;
  /** Everything written in `act` leaves in one write. */
  together(act: () => void): void;
  /** Ends the body normally. */
  end(): void;
  /**
   * Resets the connection once the system has taken everything; a slow reader loses what it has not
   * read.
   */
  reset(): void;
}

/** The head must be flushed already, with `transfer-encoding: chunked`. */
export function createBody(response: ServerResponse, encoding: "utf8" | "latin1" = "utf8"): Body {
  /** Undefined while the response waits for an earlier one on a pipelined connection. */
  const socket = () => (response.socket?.destroyed ? undefined : (response.socket ?? undefined));
  return {
    write(text) {
      if (text === "") return true;
      const direct = socket();
      if (direct === undefined) return response.write(text, encoding);
      return direct.write(`${Buffer.byteLength(text, encoding).toString(16)}\r\n${text}\r\n`, encoding);
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
