/** The interface of a session's dialect: it answers the messages of one connection. */
import type { IncomingHttpHeaders } from "node:http";
import type { Settings } from "../settings.ts";

interface SessionRequest {
  path: string;
  query: URLSearchParams;
  headers: IncomingHttpHeaders;
}

export interface SessionPort {
  send(message: object, isBinary?: boolean): void;
  /**
   * Sends these messages at the pace of the settings; each counts as a token. Then calls `done`,
   * unless a fault struck.
   */
  play(messages: readonly object[], done: () => void): void;
  close(code: number, reason: string): void;
}

export interface SimulatedSession {
  receive(message: string, isBinary: boolean): void;
}

export interface SessionDialect {
  serves(path: string): boolean;
  credentialOf(request: SessionRequest): string | undefined;
  /** The model in the address; undefined if the first message names it. */
  modelOf(request: SessionRequest): string | undefined;
  /** The model in the first message. */
  modelIn?(message: string): string;
  open(model: string, settings: Settings, port: SessionPort): SimulatedSession;
}

/** A text in as many parts as the settings demand, or by its words. */
export function tokensOf(text: string, { tokens, tokenBytes }: Settings): string[] {
  const words = text.match(/\s*\S+/g) ?? [""];
  const count = tokens ?? words.length;
  return Array.from({ length: count }, (_, index) => {
    const word = words[index % words.length] as string;
    return tokenBytes === undefined ? word : word.padEnd(tokenBytes, ".");
  });
}

/** About how many tokens a text has. */
export const estimateOf = (text: string) => Math.ceil(text.length / 4);
