/** References in a request to objects that Google would have stored. */
import { objectOf, textOf } from "#wire/json/parse.ts";
import { camelOf, itemsOf } from "./names.ts";

const fields = [
  [
    "cachedContent",
    "names a prompt kept by Google, which this gateway does not support: send the whole prompt with every request",
  ],
  [
    "cached_content",
    "names a prompt kept by Google, which this gateway does not support: send the whole prompt with every request",
  ],
  ["continuationToken", "continues an answer stored by a vendor: send the conversation with the answer so far instead"],
  [
    "continuation_token",
    "continues an answer stored by a vendor: send the conversation with the answer so far instead",
  ],
] as const;

/**
 * The first field that requires stored objects, in a request or in the request whose tokens are
 * counted; undefined if there is none. Applies to translated and verbatim requests: an upstream
 * would share stored objects between all callers of this gateway.
 */
export function statefulFieldIn(body: Record<string, unknown>): { param: string; message: string } | undefined {
  for (const [request, prefix] of [
    [body, ""],
    [objectOf(body.generateContentRequest), "generateContentRequest."],
    [objectOf(body.generate_content_request), "generate_content_request."],
  ] as const) {
    for (const [name, why] of fields)
      if (textOf(request[name]) !== undefined)
        return { param: `${prefix}${name}`, message: `${prefix}${name} ${why}.` };
    const file = storedFileIn(camelOf(request.contents), `${prefix}contents`);
    if (file !== undefined)
      return {
        param: file,
        message: `${file} names a stored file, which this gateway does not keep: send the file itself as inlineData.`,
      };
  }
  return undefined;
}

/**
 * Files of Google's own service, which belong to the account that uploaded them. Other addresses
 * are ordinary attachments.
 */
const storedFile = /^(?:https?:\/\/[a-z0-9.-]*googleapis\.com\/[a-z0-9]+\/)?files\/[^/]+$/i;

function storedFileIn(contents: unknown, path: string): string | undefined {
  for (const [content, contentPath] of itemsOf(contents, path))
    for (const [part, partPath] of itemsOf(objectOf(content).parts, `${contentPath}.parts`))
      if (storedFile.test(textOf(objectOf(objectOf(part).fileData).fileUri) ?? ""))
        return `${partPath}.fileData.fileUri`;
  return undefined;
}
