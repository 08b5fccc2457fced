/** Whole server-sent events in bytes. */
const eventEnd = Buffer.from("\n\n");

/** The events in these bytes, which are whole events. */
export function eventsOf(bytes: Buffer): Buffer[] {
  const events: Buffer[] = [];
  let from = 0;
  for (let end = bytes.indexOf(eventEnd); end >= 0; end = bytes.indexOf(eventEnd, from)) {
    events.push(bytes.subarray(from, end + eventEnd.length));
    from = end + eventEnd.length;
  }
  return events;
}

/** These whole events of a log without their ids. */
export const withoutIds = (bytes: Buffer): Buffer =>
  Buffer.concat(eventsOf(bytes).map((event) => event.subarray(event.indexOf("\n") + 1)));

/** Cuts the bytes of a stream into whole events. */
export class EventCutter {
  #rest: Buffer = Buffer.alloc(0);

  /** The events that these bytes complete. Throws for an event of more than `bytesMax` bytes. */
  push(chunk: Buffer, bytesMax: number): Buffer[] {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const events = eventsOf(bytes);
    const used = events.reduce((sum, { length }) => sum + length, 0);
    this.#rest = Buffer.from(bytes.subarray(used));
    if (this.#rest.length > bytesMax) throw new Error("an event is too large for a log");
    return events;
  }
}
