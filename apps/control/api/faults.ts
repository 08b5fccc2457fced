/** Errors of the API, in the form of https://www.rfc-editor.org/rfc/rfc9457 */

const kinds = {
  invalid: [400, "The request is not valid"],
  unauthenticated: [401, "Sign in first"],
  forbidden: [403, "Not allowed"],
  not_found: [404, "Not found"],
  conflict: [409, "Conflict"],
  stale: [409, "Changed by somebody else"],
  changed: [412, "Changed by somebody else"],
  too_large: [413, "The request is too large"],
  unsupported_media_type: [415, "The body is not JSON"],
  precondition_required: [428, "If-Match is missing"],
  too_many_requests: [429, "Too many requests"],
  internal: [500, "An error of the gateway"],
  unavailable: [503, "Not available"],
} as const satisfies Record<string, readonly [status: number, title: string]>;

export type FaultKind = keyof typeof kinds;

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  field?: string;
  [member: string]: unknown;
}

/**
 * An error for the caller. `detail` says what happened, to what, and what to do about it; it
 * contains no secret.
 */
export class Fault extends Error {
  readonly kind: FaultKind;
  readonly field: string | undefined;
  readonly retryAfterSeconds: number | undefined;
  /** Further members of the problem. */
  readonly members: object | undefined;

  constructor(
    kind: FaultKind,
    detail: string,
    more: { field?: string; retryAfterSeconds?: number; members?: object } = {},
  ) {
    super(detail);
    this.members = more.members;
    this.kind = kind;
    this.field = more.field;
    this.retryAfterSeconds = more.retryAfterSeconds;
  }

  get problem(): Problem {
    const [status, title] = kinds[this.kind];
    return {
      type: `urn:sluice:problem:${this.kind}`,
      title,
      status,
      detail: this.message,
      ...(this.field !== undefined && { field: this.field }),
      ...this.members,
    };
  }
}

/** Absent, and of another account: callers cannot tell the two apart. */
export const notFound = (what: string, id: string): Fault =>
  new Fault("not_found", `There is no ${what} ${JSON.stringify(id)} among those that you may see.`);
