/** From what is wrong with a request to what its caller is told. */
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Failure } from "#wire/errors.ts";
import { invalidFieldOf, type ValidationFault } from "#wire/invalid-field.ts";

export const invalidKey: Failure = {
  code: "invalid_key",
  message: "The API key is missing or not valid. Send a key of this gateway as 'Authorization: Bearer <key>', x-api-key or x-goog-api-key.",
};

export const tooLarge = (bytesMax: number): Failure => ({ code: "body_too_large", message: `The body may have ${bytesMax} bytes at most.` });

export function failureOf(error: FastifyError, bodyBytesMax = 0): Failure {
  const [fault] = error.validation ?? [];
  if (fault !== undefined) return invalidBodyOf(fault as ValidationFault);
  switch (error.code) {
    case "FST_ERR_CTP_BODY_TOO_LARGE":
      return tooLarge(bodyBytesMax);
    case "FST_ERR_CTP_INVALID_MEDIA_TYPE":
      return {
        code: "unsupported_media_type",
        message: "Send the body as JSON, with 'Content-Type: application/json'; but pictures to edit as a form, with 'multipart/form-data'.",
      };
    case "FST_ERR_CTP_EMPTY_JSON_BODY":
    case "FST_ERR_CTP_INVALID_CONTENT_LENGTH":
      return { code: "invalid_request", message: "The body is empty, or shorter than its Content-Length." };
    case "FST_ERR_BAD_URL":
    case "FST_ERR_PARAM_MAX_LENGTH":
      return { code: "path_not_found", message: "The path is not a valid URL path." };
    default:
      return error.statusCode === 400
        ? { code: "invalid_request", message: "The request could not be read." }
        : { code: "internal", message: "The gateway failed to process this request." };
  }
}

/** The failure of a request whose body is not what its endpoint's schema says. */
export function invalidBodyOf(fault: ValidationFault): Failure {
  const { param, message } = invalidFieldOf(fault);
  return { code: "invalid_request", message, ...(param !== "" && { param }) };
}

const doubledPrefix = /^(?:\/v1(?:alpha|beta1?)?){2,}(?=\/|$)/;

export function notFoundOf(request: FastifyRequest, reply: FastifyReply, server: FastifyInstance): Failure {
  const path = request.url.split("?", 1)[0] as string;
  const methodsOf = (url: string) => (["GET", "HEAD", "POST"] as const).filter((method) => server.findRoute({ url, method }) !== null);
  const allowed = methodsOf(path);
  if (allowed.length > 0) {
    reply.header("allow", allowed.join(", "));
    return { code: "method_not_allowed", message: `${request.method} is not allowed here; use ${allowed.join(" or ")}.` };
  }
  const prefix = doubledPrefix.exec(path)?.[0];
  if (prefix !== undefined)
    return {
      code: "path_not_found",
      message:
        `The path begins with its version twice (${prefix}). OpenAI's clients want a base address that ends in one /v1; ` +
        "Anthropic's and Google's add the version themselves: give them the base address without it.",
    };
  const hint = methodsOf(`/v1${path}`).length > 0 ? " OpenAI's clients want a base address that ends in /v1." : "";
  return { code: "path_not_found", message: `There is no ${request.method} ${printable(path)} here.${hint}` };
}

const printable = (path: string) => path.slice(0, 200).replaceAll(/[^\x20-\x7e]/g, "?");
