/** Reads server-sent events. */

/** The data of each event. `onLine` sees every line, comments and empty ones included. */
export async function* eventsOf(
  body: ReadableStream<Uint8Array>,
  onLine: (line: string) => void,
): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let unfinished = "";
  let data: string[] = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      unfinished += done ? decoder.decode() : decoder.decode(value, { stream: true });
      // A carriage return at the end may be half of a line end.
      const lines = unfinished.split(/\r\n|\n|\r(?!$)/);
      unfinished = done ? "" : (lines.pop() ?? "");
      for (const line of lines) {
        onLine(line);
        if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
        if (line !== "" || data.length === 0) continue;
        yield data.join("\n");
        data = [];
      }
      if (!done) continue;
      if (data.length > 0) yield data.join("\n");
      return;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
