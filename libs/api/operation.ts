/**
 * The form of an operation of control's API. The server makes its routes and the OpenAPI document
 * from the table of operations; clients import its types and call operations by name.
 */
import type { Static, TObject, TSchema } from "typebox";

/**
 * The callers of an operation. `anyone` needs no sign-in. `person` is anyone who is signed in. The
 * roles of an account include those before them; an operator has every role in every account.
 */
export type Access = "anyone" | "person" | "reader" | "member" | "owner" | "operator";

export interface Operation {
  readonly method: "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
  /** Below /api/v1, with parameters as `:name`. */
  readonly path: string;
  readonly summary: string;
  readonly access: Access;
  readonly params?: TObject;
  /** Values in a query are text; numbers, booleans and lists are converted. */
  readonly query?: TObject;
  readonly body?: TSchema;
  /** The largest body; the server's bound by default. */
  readonly bodyBytesMax?: number;
  /** The handler checks the body, because its errors say more than those of the schema. */
  readonly isBodyChecked?: true;
  /**
   * The body of a success. Fields that are not in it do not leave. Absent: 204 without a body, or
   * one of `mediaType`.
   */
  readonly answer?: TSchema;
  /** The status of a success; 200 by default, 204 without an answer. */
  readonly status?: 200 | 201 | 202;
  /**
   * The answer as another media type, such as CSV: the handler returns a text, or a stream if there
   * is no `answer`.
   */
  readonly mediaType?: string;
}

type StaticOr<Schema, Default> = Schema extends TSchema ? Static<Schema> : Default;

/** The input of an operation, which its caller sends. */
export interface InputOf<Each extends Operation> {
  params: StaticOr<Each["params"], Record<never, never>>;
  query: StaticOr<Each["query"], Record<never, never>>;
  body: StaticOr<Each["body"], undefined>;
}

/** The answer that the caller gets; undefined where it is a stream. */
export type AnswerOf<Each extends Operation> = StaticOr<Each["answer"], undefined>;
