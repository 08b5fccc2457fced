/** The caller of the API, and what it may see and do. */
import { type Expression, type SqlBool, sql } from "kysely";
import type { Access } from "#api/operation.ts";
import type { Role } from "../database/tables.ts";
import { Fault } from "./faults.ts";

/** `token`: a machine. `system`: control itself, for the audit log. */
export interface Actor {
  readonly kind: "person" | "token" | "system";
  readonly id: string;
  /** An address or a name that people recognise. */
  readonly name: string;
  /** Has every role in every account. */
  readonly isOperator: boolean;
  readonly roles: ReadonlyMap<string, Role>;
  /**
   * The operations that a token may call: names, or prefixes followed by `*`. Undefined for all.
   */
  readonly scopes?: readonly string[];
  /** The id of a person's session. */
  readonly session?: string;
}

/** False for a caller without credentials. */
export const isSignedIn = ({ kind }: Actor): boolean => kind !== "system";

/** The accounts whose rows an operation may touch. */
export type Scope = "all" | readonly string[];

const roleOrder: readonly Role[] = ["reader", "member", "owner"];

/**
 * Throws a Fault for an actor who may not call the operation at all. Otherwise the accounts in
 * which they may.
 */
export function scopeOf(actor: Actor | undefined, operation: string, access: Access): Scope {
  if (access === "anyone") return [];
  if (actor === undefined) throw new Fault("unauthenticated", "Sign in, or send a token as `Authorization: Bearer …`.");
  if (!mayCall(actor, operation)) throw new Fault("forbidden", `This token has no scope for ${operation}.`);
  if (actor.isOperator) return "all";
  if (access === "operator") throw new Fault("forbidden", "Only an operator may do this.");
  return [...actor.roles]
    .filter(([, role]) => access === "person" || roleIncludes(role, access))
    .map(([account]) => account);
}

/** Whether the scopes allow the operation. */
export const mayCall = ({ scopes }: Pick<Actor, "scopes">, operation: string): boolean =>
  scopes === undefined || scopes.some((scope) => allows(scope, operation));

/** Whether operations that need `other` are among those of the role. */
export const roleIncludes = (role: Role, other: Role): boolean => roleOrder.indexOf(role) >= roleOrder.indexOf(other);

const allows = (scope: string, operation: string): boolean =>
  scope.endsWith("*") ? operation.startsWith(scope.slice(0, -1)) : operation === scope;

/** SQL that keeps only rows of these accounts. `column` is one of ours, never a caller's text. */
export const within = (column: string, scope: Scope): Expression<SqlBool> =>
  scope === "all" ? sql<SqlBool>`true` : sql<SqlBool>`${sql.ref(column)} = any(${[...scope]}::text[])`;
