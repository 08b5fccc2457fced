/** What of a request refers to what Google would have stored. */
import { objectOf, textOf } from "../json.ts";
import { camelOf, itemsOf } from "./names.ts";

const fields = [
  ["cachedContent", "names a stored prompt: send the whole prompt with every request"],
  ["cached_content", "names a stored prompt: send the whole prompt with every request"],
  [
    "continuationToken",
    "continues an answer that a vendor has kept: send the conversation with the answer so far instead",
  ],
  [
    "continuation_token",
    "continues an answer that a vendor has kept: send the conversation with the answer so far instead",
  ],
] as const;

/**
 * The first field of a request, or of the request whose tokens are to be counted, that only makes sense where something is stored; undefined when there is
 * none. It holds for every request, translated or not: what an upstream stores, it stores for all callers of this gateway together.
 */
export function statefulFieldIn(body: Record<string, unknown>): { param: string; message: string } | undefined {
  for (const [request, prefix] of [
    [body, ""],
    [objectOf(body.generateContentRequest), "generateContentRequest."],
    [objectOf(body.generate_content_request), "generate_content_request."],
  ] as const) {
    for (const [name, why] of fields)
      if (textOf(request[name]) !== undefined)
        return { param: `${prefix}${name}`, message: `${prefix}${name} ${why}. This gateway stores nothing.` };
    const file = storedFileIn(camelOf(request.contents), `${prefix}contents`);
    if (file !== undefined)
      return {
        param: file,
        message: `${file} names a stored file. This gateway stores nothing: send the file itself as inlineData.`,
      };
  }
  return undefined;
}

/** Files of Google's own service, which belong to the account that uploaded them; what lies elsewhere is an address like any other. */
const storedFile = /^(?:https?:\/\/[a-z0-9.-]*googleapis\.com\/[a-z0-9]+\/)?files\/[^/]+$/i;

function storedFileIn(contents: unknown, path: string): string | undefined {
  for (const [content, contentPath] of itemsOf(contents, path))
    for (const [part, partPath] of itemsOf(objectOf(content).parts, `${contentPath}.parts`))
      if (storedFile.test(textOf(objectOf(objectOf(part).fileData).fileUri) ?? ""))
        return `${partPath}.fileData.fileUri`;
  return undefined;
}
