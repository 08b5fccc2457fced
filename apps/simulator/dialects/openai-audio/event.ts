/** A server-sent event that is named by its type. */
export const namedEventOf = (event: { type: string } & Record<string, unknown>): string =>
  `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
