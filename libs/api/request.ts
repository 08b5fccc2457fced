/** How a call of control's API is sent, and its answer read. Runs in Node and in browsers. */

/**
 * An error of the API. The message says what happened and what to do about it; `field` names the
 * field that is wrong.
 */
export class ApiFault extends Error {
  readonly status: number;
  readonly field: string | undefined;

  constructor(status: number, detail: string, field?: string) {
    super(detail);
    this.status = status;
    this.field = field;
  }
}

export interface Input {
  params?: object | undefined;
  query?: object | undefined;
  body?: unknown;
}

/** The path of an operation below /api/v1, with its parameters and its query. */
export function addressOf(path: string, { params = {}, query = {} }: Input): string {
  const values = new Map<string, unknown>(Object.entries(params));
  const filled = path.replaceAll(/:(\w+)/g, (_, name: string) => encodeURIComponent(String(values.get(name))));
  const fields = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const search = new URLSearchParams(fields.map(([field, value]): [string, string] => [field, String(value)]));
  return `/api/v1${filled}${search.size > 0 ? `?${search}` : ""}`;
}

/** Creations are idempotent: a retry below the program creates nothing twice. */
export const requestOf = (method: string, body: unknown, headers: Record<string, string> = {}) => ({
  method,
  headers: {
    accept: "application/json",
    ...(body !== undefined && { "content-type": "application/json" }),
    ...(method === "POST" && { "idempotency-key": newIdempotencyKey() }),
    ...headers,
  },
  ...(body !== undefined && { body: JSON.stringify(body) }),
});

/** The fields that errors of sign-in are about, by their code. */
const fieldsOfSignIn: Record<string, string> = {
  INVALID_PASSWORD: "password",
  INVALID_CODE: "code",
  INVALID_BACKUP_CODE: "code",
  PASSWORD_TOO_SHORT: "newPassword",
  PASSWORD_TOO_LONG: "newPassword",
};

/** The value of an answer; undefined without a body. Rejects with an ApiFault for an error. */
export async function answerOf(response: Response): Promise<unknown> {
  const value = valueIn(await response.text());
  if (response.ok) return value;
  const { detail, message, code = "", field = fieldsOfSignIn[code] } = (value ?? {}) as Partial<Record<string, string>>;
  throw new ApiFault(response.status, detail ?? message ?? `control answered with status ${response.status}`, field);
}

function valueIn(text: string): unknown {
  try {
    return text === "" ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** `crypto.randomUUID` exists on secure pages only, and a first try may come over plain http. */
const newIdempotencyKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
