/** The handlers of operations, one each. */
import type { AnswerOf, InputOf, Operation } from "#api/operation.ts";
import type { ChangeContext } from "../database/change.ts";
import type { Scope } from "./actor.ts";

/** The context of one call. */
export interface Context extends ChangeContext {
  /**
   * The accounts that this call may touch. Every query of an account's rows must contain `within(…,
   * scope)`.
   */
  readonly scope: Scope;
  /** The version that the caller has seen, from `If-Match`. */
  readonly ifMatch: number | undefined;
}

/** `version` becomes the ETag. */
export interface Answered<Body> {
  body: Body;
  version?: number;
  /** The name under which a browser saves the body. */
  filename?: string;
  /**
   * The body as JSON, for answers that are large, the same for many callers, and known before.
   * Caches may keep one that is public.
   */
  prepared?: { readonly json: Buffer; readonly etag: string; readonly isPublic: boolean };
}

/** An operation with a media type and without `answer` has a stream. */
type BodyOf<Each extends Operation> =
  AnswerOf<Each> extends undefined
    ? Each["mediaType"] extends string
      ? AsyncIterable<Uint8Array>
      : undefined
    : AnswerOf<Each>;

type Handler<Each extends Operation> = (input: InputOf<Each>, context: Context) => Promise<Answered<BodyOf<Each>>>;

export type Handlers<Table extends Record<string, Operation>> = { [Name in keyof Table]: Handler<Table[Name]> };
