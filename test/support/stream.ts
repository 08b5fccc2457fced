/**
 * Reads a streamed chat completion as bytes, so that errors which client libraries tolerate are
 * visible.
 */

export interface StreamRead {
  status: number;
  /** Everything that arrived. */
  text: string;
  /** The contents of the chunks, joined. */
  content: string;
  /** How many chunks had content. */
  chunks: number;
  done: boolean;
  /** The in-stream error, if there was one. */
  error: { message: string; code: string | null; type: string } | undefined;
  /** The connection broke before the answer's end. */
  broken: boolean;
}

/**
 * Reads to the end, or to the break. `onPiece` is called after each read with the number of content
 * chunks so far.
 */
export async function readStream(
  response: Response,
  onChunk: (chunks: number) => void = () => {},
): Promise<StreamRead> {
  const read: StreamRead = {
    status: response.status,
    text: "",
    content: "",
    chunks: 0,
    done: false,
    error: undefined,
    broken: false,
  };
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for await (const bytes of response.body ?? []) {
      const text = decoder.decode(bytes as Uint8Array, { stream: true });
      read.text += text;
      rest += text;
      const events = rest.split("\n\n");
      rest = events.pop() ?? "";
      for (const event of events) takeEvent(event.trim(), read);
      onChunk(read.chunks);
    }
  } catch {
    read.broken = true;
  }
  return read;
}

/** The text of a stream whose connection breaks before its end. Throws for one that ends. */
export async function brokenTextOf({ body }: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const bytes of body ?? []) text += decoder.decode(bytes as Uint8Array, { stream: true });
  } catch {
    return text;
  }
  throw new Error(`the stream ended as if it were whole: ${text}`);
}

function takeEvent(event: string, read: StreamRead): void {
  if (!event.startsWith("data: ")) return;
  const data = event.slice("data: ".length);
  if (read.done) throw new Error(`an event after [DONE]: ${data}`);
  if (data === "[DONE]") {
    read.done = true;
    return;
  }
  const chunk = JSON.parse(data) as {
    error?: StreamRead["error"];
    choices?: { delta?: { content?: string | null } }[];
  };
  if (chunk.error) read.error = chunk.error;
  const content = chunk.choices?.[0]?.delta?.content;
  if (content) {
    read.content += content;
    read.chunks++;
  }
}
