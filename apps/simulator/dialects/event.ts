/** An event of a stream (server-sent events) that names its type twice: in its `event:` line and in its data. */
export const eventOf = <Data extends { type: string }>(data: Data): string =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
