/** The meaning of each error code of a record, and what to do about it. */

/** The event, and what to do. */
type ErrorText = readonly [what: string, action: string];

const en = {
  invalid_request: ["The request is not valid.", "Correct the request; a retry of the same request fails again."],
  context_too_long: [
    "The prompt and the asked-for output are longer than the model's context.",
    "Shorten the conversation, ask for fewer output tokens, or choose a model with a longer context.",
  ],
  content_filter: [
    "The upstream's content filter stopped the request or its answer.",
    "Change the content, or choose another model.",
  ],
  missing_key: ["The request had no key.", "Set the client's API key to one of the page Keys."],
  invalid_key: ["The key is unknown, expired or revoked.", "Check the key on the page Keys, or create a new one."],
  invalid_token: [
    "The bearer token is no valid key.",
    "Set the client's API key to one of the page Keys, or create a new one.",
  ],
  origin_not_allowed: ["The web page's origin may not use this key.", "Add the origin to the key or its group."],
  address_not_allowed: ["The caller's IP address may not use this key.", "Add the address to the key."],
  path_not_found: ["No API has this path.", "Check the client's base URL: most clients need the one that ends in /v1."],
  not_found: ["What the request refers to does not exist.", "It may have expired, or belong to another account."],
  model_not_found: [
    "No model has this name, or the key's group does not have it.",
    "Choose a name from the page Models.",
  ],
  method_not_allowed: ["This path has no such method.", "Check the client's version and base URL."],
  request_timeout: [
    "The request's body did not arrive in time.",
    "Check the caller's connection, then send the request again.",
  ],
  body_too_large: ["The request is larger than allowed.", "Send less, or name large files by their URL."],
  unsupported_media_type: [
    "The body has a type that this path does not take.",
    "Send JSON, or the type that the API asks for.",
  ],
  unprocessable: [
    "The upstream understood the request but could not process it.",
    "Correct the values that the message names.",
  ],
  upgrade_required: ["This path speaks WebSocket only.", "Open it as a WebSocket."],
  headers_too_large: ["The request's headers are larger than allowed.", "Send fewer or shorter headers."],
  rate_limited: [
    "A rate limit was reached: of the key, its group, its account, or the upstream.",
    "Wait as long as retry-after says, or raise the limit.",
  ],
  budget_exhausted: [
    "The budget of the key, its group or its account is spent.",
    "Raise the budget, or wait until it begins anew.",
  ],
  internal: ["The gateway itself failed.", "The gateway's log has the details under the id of the request."],
  upstream_failed: [
    "Every upstream that was called failed or refused the gateway.",
    "The page Operations shows the upstreams' state. A retry may succeed.",
  ],
  worker_lost: [
    "The worker was lost after a part of the answer was delivered.",
    "Send the request again, or ask for resumption.",
  ],
  unavailable: [
    "The gateway cannot take requests at the moment.",
    "Send the request again in a moment; check Redis and the workers if it lasts.",
  ],
  stopped: [
    "An operator ended the request, while it waited or ran.",
    "The error that the caller got has the operator's reason.",
  ],
  overloaded: [
    "The gateway's queue or the upstream is full.",
    "Send the request again later, or add workers or upstreams.",
  ],
  upstream_timeout: [
    "The upstream did not answer in time.",
    "Send the request again; raise the timeout if the model needs longer.",
  ],
} as const satisfies Record<string, ErrorText>;
/** The codes of libs/dialects/errors.ts; a test compares them. */
type ErrorCode = keyof typeof en;

const zh: Readonly<Record<ErrorCode, ErrorText>> = {
  invalid_request: ["请求无效。", "请修正请求；重复发送同样的请求仍会失败。"],
  context_too_long: [
    "提示与要求的输出超过了模型的上下文长度。",
    "请缩短对话、减少输出令牌数，或选择上下文更长的模型。",
  ],
  content_filter: ["上游的内容过滤器拦截了请求或回答。", "请修改内容，或选择其他模型。"],
  missing_key: ["请求没有密钥。", "请在客户端中设置“密钥”页面上的密钥。"],
  invalid_key: ["密钥未知、已过期或已吊销。", "请在“密钥”页面检查密钥，或新建一个。"],
  invalid_token: ["Bearer 令牌不是有效的密钥。", "请在客户端中设置“密钥”页面上的密钥，或新建一个。"],
  origin_not_allowed: ["该网页来源不允许使用此密钥。", "请把该来源加入密钥或其分组。"],
  address_not_allowed: ["调用方的 IP 地址不允许使用此密钥。", "请把该地址加入密钥。"],
  path_not_found: ["没有 API 使用此路径。", "请检查客户端的基础 URL：多数客户端需要以 /v1 结尾的地址。"],
  not_found: ["请求所引用的对象不存在。", "它可能已过期，或属于其他账户。"],
  model_not_found: ["没有此名称的模型，或密钥的分组没有该模型。", "请从“模型”页面选择名称。"],
  method_not_allowed: ["此路径不支持该方法。", "请检查客户端版本和基础 URL。"],
  request_timeout: ["请求正文未能及时到达。", "请检查调用方的网络，然后重新发送。"],
  body_too_large: ["请求超过允许的大小。", "请减少内容，或用 URL 引用大文件。"],
  unsupported_media_type: ["此路径不接受该类型的正文。", "请发送 JSON，或 API 要求的类型。"],
  unprocessable: ["上游理解了请求，但无法处理。", "请修正错误信息中指出的值。"],
  upgrade_required: ["此路径只支持 WebSocket。", "请以 WebSocket 方式打开。"],
  headers_too_large: ["请求头超过允许的大小。", "请减少或缩短请求头。"],
  rate_limited: ["达到了速率限制：来自密钥、分组、账户或上游。", "请按 retry-after 等待，或提高限额。"],
  budget_exhausted: ["密钥、分组或账户的预算已用完。", "请提高预算，或等待预算重新开始。"],
  internal: ["网关自身出错。", "网关日志中以请求 ID 记录了详情。"],
  upstream_failed: ["调用的所有上游都失败或拒绝了网关。", "“运维”页面显示上游状态。重试可能成功。"],
  worker_lost: ["部分回答送达后，工作进程丢失。", "请重新发送请求，或启用续传。"],
  unavailable: ["网关暂时无法接受请求。", "请稍后重试；若持续，请检查 Redis 和工作进程。"],
  stopped: ["运维人员在请求等待或运行时将其终止。", "调用方收到的错误中包含运维人员给出的原因。"],
  overloaded: ["网关队列或上游已满。", "请稍后重试，或增加工作进程或上游。"],
  upstream_timeout: ["上游未能及时回答。", "请重试；如果模型需要更长时间，请提高超时设置。"],
};

/** By the code of the error, which a newer gateway may have and these texts not. */
type ErrorTexts = Readonly<Record<string, ErrorText | undefined>>;
export const errorTexts: { en: ErrorTexts; zh: ErrorTexts } = { en, zh };
export const errorCodes = Object.keys(en) as ErrorCode[];
