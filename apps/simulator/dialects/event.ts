/** A server-sent event with its type in the `event:` line and in its data. */
export const eventOf = <Data extends { type: string }>(data: Data) =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
