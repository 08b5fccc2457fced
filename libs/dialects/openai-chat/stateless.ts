/** References in a chat completion's request to objects that a vendor would have stored. */

import type { JsonObject } from "#wire/json/parse.ts";
import { type StoredField, storedFieldIn, storedFieldRule } from "../neutral/stored-fields.ts";

const rules = [
  storedFieldRule(
    "messages[].audio.id",
    "names a spoken answer that a vendor stores for all callers: send the transcript of that answer as the message's content",
  ),
  storedFieldRule(
    "messages[].content[].file.file_id",
    "names a stored file, which this gateway does not keep: send the file itself as file_data",
  ),
];

/** The first field that requires stored files or answers. */
export const statefulFieldIn = (body: JsonObject): StoredField | undefined => storedFieldIn(body, rules);
