import { translated } from "../app/texts.ts";
import { errorTexts } from "../parts/error.texts.ts";

/** The meaning of codes that only batches have; the others are those of errors of requests. */
const en = {
  invalid_json_line: "The line is not valid JSON.",
  duplicate_custom_id: "An earlier request has the same custom_id.",
  url_mismatch: "The url is not the endpoint of the batch.",
  line_too_long: "The request is longer than a batch allows.",
  too_many_tasks: "The file has more requests than a batch may have.",
  file_too_large: "The file is larger than a batch may be.",
  empty_file: "The file contains no requests.",
  file_not_readable: "The input file does not exist any more.",
  token_limit_exceeded: "The account's batches would have too many tokens of input at once.",
  batch_cancelled: "The batch was cancelled before these requests ran.",
  batch_expired: "The deadline passed before these requests ran.",
  insufficient_quota: "A budget of the key, its group or its account was spent.",
  no_answer: "These requests got no answer that a batch can keep.",
  invalid_api_key: "The key of the batch is not valid any more.",
};
const zh: Record<keyof typeof en, string> = {
  invalid_json_line: "该行不是有效的 JSON。",
  duplicate_custom_id: "之前的请求使用了相同的 custom_id。",
  url_mismatch: "url 与批处理的端点不一致。",
  line_too_long: "请求超过批处理允许的长度。",
  too_many_tasks: "文件中的请求数超过上限。",
  file_too_large: "文件超过批处理允许的大小。",
  empty_file: "文件中没有请求。",
  file_not_readable: "输入文件已不存在。",
  token_limit_exceeded: "账户的批处理同时包含的输入令牌过多。",
  batch_cancelled: "这些请求运行之前，批处理已被取消。",
  batch_expired: "这些请求运行之前，截止时间已过。",
  insufficient_quota: "密钥、分组或账户的预算已用完。",
  no_answer: "这些请求没有得到批处理可以保存的回答。",
  invalid_api_key: "批处理的密钥已失效。",
};

/** The codes of vendors that mean the same as one of the gateway. */
const synonyms: Record<string, string> = {
  invalid_request_error: "invalid_request",
  invalid_value: "invalid_request",
  INVALID_ARGUMENT: "invalid_request",
  rate_limit_error: "rate_limited",
  rate_limit_exceeded: "rate_limited",
  billing_error: "insufficient_quota",
  RESOURCE_EXHAUSTED: "rate_limited",
  authentication_error: "invalid_api_key",
  UNAUTHENTICATED: "invalid_api_key",
  not_found_error: "not_found",
  NOT_FOUND: "not_found",
  overloaded_error: "overloaded",
  UNAVAILABLE: "unavailable",
  DEADLINE_EXCEEDED: "batch_expired",
  CANCELLED: "batch_cancelled",
  server_error: "no_answer",
  api_error: "no_answer",
  INTERNAL: "no_answer",
};

const wordsOf =
  (own: Record<string, string>, errors: Record<string, readonly [string, string] | undefined>) =>
  (code: string): string | undefined => {
    const name = synonyms[code] ?? code;
    return own[name] ?? errors[name]?.[0];
  };

export const useLineGroupsTexts = translated({
  en: {
    line: "Line {number}",
    whole: "The whole input",
    more: "and {count} more",
    words: wordsOf(en, errorTexts.en),
  },
  zh: {
    line: "第 {number} 行",
    whole: "整个输入",
    more: "以及另外 {count} 个",
    words: wordsOf(zh, errorTexts.zh),
  },
});
