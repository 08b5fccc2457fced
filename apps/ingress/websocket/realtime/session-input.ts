/**
 * The caller's messages on their way to the upstream: they wait here until the upstream accepted
 * the session, and while the relay's window is full.
 */
import { payloadBytesMax } from "#relay/bounds.ts";
import { encodeMessage, type MessagePart } from "#relay/session-messages.ts";
import type { SessionInput } from "../../admission/generation-request.ts";
import { waitingInputBytesMax } from "../../common/bounds.ts";

export class InputQueue implements SessionInput {
  /** Bytes that wait. */
  bytes = 0;
  readonly #changed: () => void;
  #waiting: Buffer[] = [];
  #send: ((payload: Buffer) => void) | undefined;
  #isOpen = true;

  /** `changed` is called when `bytes` may have changed. */
  constructor(changed: () => void) {
    this.#changed = changed;
  }

  /** Whether the caller should not send more. */
  get isFull(): boolean {
    return this.bytes > waitingInputBytesMax;
  }

  add(message: readonly MessagePart[]): void {
    const encoded = Buffer.concat(encodeMessage(message));
    this.#waiting.push(encoded);
    this.bytes += encoded.length;
    this.#pump();
  }

  open(send: (payload: Buffer) => void): void {
    this.#send = send;
    this.#pump();
  }

  flow(isOpen: boolean): void {
    this.#isOpen = isOpen;
    this.#pump();
  }

  /** The session is over. */
  forget(): void {
    this.#send = undefined;
    this.#waiting = [];
    this.bytes = 0;
  }

  #pump(): void {
    while (this.#isOpen && this.#send !== undefined) {
      const message = this.#waiting[0];
      if (message === undefined) break;
      const payload = message.subarray(0, payloadBytesMax);
      if (payload.length === message.length) this.#waiting.shift();
      else this.#waiting[0] = message.subarray(payload.length);
      this.bytes -= payload.length;
      this.#send(payload);
    }
    this.#changed();
  }
}
