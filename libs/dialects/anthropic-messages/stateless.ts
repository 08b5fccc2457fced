/** References in a request to objects that its vendor would have stored. */

import { isPresent, type JsonObject } from "#wire/json/parse.ts";
import { notKept, storedFieldIn, storedFieldRule } from "../neutral/stored-fields.ts";

const container = `names a stored container, ${notKept}`;
const file = `names a stored file, ${notKept}`;

const rules = [
  storedFieldRule("container", container),
  storedFieldRule("container.id", container),
  storedFieldRule("messages[].content[tool_result]*.content[].source.file_id", file),
  storedFieldRule("messages[].content[tool_result]*.content[container_upload].file_id", file),
];

/** The first field that requires stored conversations, containers or files. */
export const statefulFieldIn = (body: JsonObject) =>
  isPresent(body.thread)
    ? {
        param: "thread",
        message: "thread: message threads are not supported by this gateway; send all messages with every request.",
        upstreamCode: "thread_unsupported_request",
      }
    : storedFieldIn(body, rules);
