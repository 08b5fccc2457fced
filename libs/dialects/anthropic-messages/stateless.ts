/** References in a request to objects that its vendor would have stored. */
import { isPresent, listOf, objectOf, textOf } from "#wire/json/parse.ts";

export interface StatefulField {
  /** The field at fault, such as `messages[3].content[0].source.file_id`. */
  param: string;
  message: string;
  /** The vendor's own error code, by which its clients know to continue without the feature. */
  upstreamCode?: string;
}

/**
 * The first field that requires stored conversations, containers or files; undefined if there is
 * none. Applies to translated and verbatim requests: an upstream would share stored objects between
 * all callers of this gateway.
 */
export function statefulFieldIn(body: Record<string, unknown>): StatefulField | undefined {
  if (isPresent(body.thread))
    return {
      param: "thread",
      message: "thread: message threads are not supported by this gateway; send all messages with every request.",
      upstreamCode: "thread_unsupported_request",
    };
  const container = typeof body.container === "string" ? "container" : "container.id";
  if (textOf(body.container) !== undefined || textOf(objectOf(body.container).id) !== undefined)
    return refusalOf(container, "names a stored container");
  for (const [place, message] of listOf(body.messages).entries()) {
    const field = fileIn(objectOf(message).content, `messages[${place}].content`);
    if (field !== undefined) return field;
  }
  return undefined;
}

function fileIn(content: unknown, path: string): StatefulField | undefined {
  for (const [place, value] of listOf(content).entries()) {
    const { type, source, file_id: uploaded, content: inner } = objectOf(value);
    const at = `${path}[${place}]`;
    if (textOf(objectOf(source).file_id) !== undefined) return refusalOf(`${at}.source.file_id`, "names a stored file");
    if (type === "container_upload" && textOf(uploaded) !== undefined)
      return refusalOf(`${at}.file_id`, "names a stored file");
    if (type === "tool_result") {
      const field = fileIn(inner, `${at}.content`);
      if (field !== undefined) return field;
    }
  }
  return undefined;
}

const refusalOf = (param: string, what: string): StatefulField => ({
  param,
  message: `${param} ${what}, which this gateway does not keep: send the content itself with every request.`,
});
