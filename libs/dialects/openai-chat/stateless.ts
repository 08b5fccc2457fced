/** References in a chat completion's request to objects that a vendor would have stored. */
import { listOf, objectOf, textOf } from "#wire/json/parse.ts";

/**
 * The first field that requires stored files or answers; undefined if there is none. An upstream
 * would share stored objects between all callers of this gateway.
 */
export function statefulFieldIn(body: Record<string, unknown>): { param: string; message: string } | undefined {
  for (const [place, value] of listOf(body.messages).entries()) {
    const { content, audio } = objectOf(value);
    if (textOf(objectOf(audio).id) !== undefined)
      return refusalOf(
        `messages[${place}].audio.id`,
        "names a spoken answer that a vendor stores for all callers: send the transcript of that answer as the message's content",
      );
    for (const [at, part] of listOf(content).entries())
      if (textOf(objectOf(objectOf(part).file).file_id) !== undefined)
        return refusalOf(
          `messages[${place}].content[${at}].file.file_id`,
          "names a stored file, which this gateway does not keep: send the file itself as file_data",
        );
  }
  return undefined;
}

const refusalOf = (param: string, why: string) => ({ param, message: `${param} ${why}.` });
