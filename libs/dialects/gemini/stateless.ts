/** References in a request to objects that Google would have stored. */
import { type JsonObject, objectOf, textOf } from "#wire/json/parse.ts";
import { type StoredField, storedField, storedFieldIn, storedFieldRule } from "../neutral/stored-fields.ts";
import { camelOf, itemsOf, snakeNameOf } from "./names.ts";

const names = {
  cachedContent:
    "names a prompt kept by Google, which this gateway does not support: send the whole prompt with every request",
  continuationToken: "continues an answer stored by a vendor: send the conversation with the answer so far instead",
};

/** The members that have the request whose tokens are counted. */
const countedRequests = ["generateContentRequest", "generate_content_request"];

const rules = ["", ...countedRequests.map((request) => `${request}.`)].flatMap((prefix) =>
  Object.entries(names).flatMap(([name, reason]) =>
    [name, snakeNameOf(name)].map((spelling) => storedFieldRule(`${prefix}${spelling}`, reason)),
  ),
);

/**
 * The first field that requires stored objects, in a request or in the request whose tokens are
 * counted.
 */
export function statefulFieldIn(body: JsonObject): StoredField | undefined {
  const file =
    storedFileIn(body.contents, "contents") ??
    countedRequests
      .map((name) => storedFileIn(objectOf(body[name]).contents, `${name}.contents`))
      .find((path) => path !== undefined);
  return (
    storedFieldIn(body, rules) ??
    (file === undefined
      ? undefined
      : storedField(file, "names a stored file, which this gateway does not keep: send the file itself as inlineData"))
  );
}

/**
 * Files of Google's own service, which belong to the account that uploaded them. Other addresses
 * are ordinary attachments.
 */
const storedFile = /^(?:https?:\/\/[a-z0-9.-]*googleapis\.com\/[a-z0-9]+\/)?files\/[^/]+$/i;

function storedFileIn(contents: unknown, path: string): string | undefined {
  for (const [content, contentPath] of itemsOf(camelOf(contents), path))
    for (const [part, partPath] of itemsOf(objectOf(content).parts, `${contentPath}.parts`))
      if (storedFile.test(textOf(objectOf(objectOf(part).fileData).fileUri) ?? ""))
        return `${partPath}.fileData.fileUri`;
  return undefined;
}
