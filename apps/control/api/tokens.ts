/** Operator tokens: how machines and the command line call the API. */

import { hash, timingSafeEqual } from "node:crypto";
import type { FastifyRequest } from "fastify";
import type { Clock } from "#service/clock.ts";
import { tokenUseMs } from "../bounds.ts";
import type { Database } from "../database/database.ts";
import type { Actor } from "./actor.ts";
import { Fault } from "./faults.ts";

const noRoles = new Map<string, never>();

/**
 * Identifies callers by `Authorization: Bearer …`: the token of the configuration, or one of the
 * database. Undefined without a token.
 */
export function identifyBy(database: Database, operatorToken: () => string | undefined, clock: Clock) {
  return async ({ headers: { authorization } }: FastifyRequest): Promise<Actor | undefined> => {
    if (authorization === undefined) return undefined;
    const [, token] = /^Bearer +(\S{1,512})$/i.exec(authorization) ?? [];
    if (token === undefined) throw new Fault("unauthenticated", "`Authorization` must be `Bearer` and a token.");
    const digest = digestOf(token);
    const configured = operatorToken();
    if (configured !== undefined && timingSafeEqual(digest, digestOf(configured)))
      return { kind: "token", id: "configured", name: "OPERATOR_TOKEN", isOperator: true, roles: noRoles };
    const now = new Date(clock.epoch());
    const row = await database
      .selectFrom("tokens")
      .select(["id", "name", "scopes", "last_used_at"])
      .where("hash", "=", digest.toString("hex"))
      .where("revoked_at", "is", null)
      .where((where) => where.or([where("expires_at", "is", null), where("expires_at", ">", now)]))
      .executeTakeFirst();
    if (row === undefined)
      throw new Fault("unauthenticated", "This token is not valid: it is unknown, expired or revoked.");
    if (row.last_used_at === null || now.getTime() - row.last_used_at.getTime() >= tokenUseMs)
      await database.updateTable("tokens").set({ last_used_at: now }).where("id", "=", row.id).execute();
    return { kind: "token", id: row.id, name: row.name, isOperator: true, roles: noRoles, scopes: row.scopes };
  };
}

const digestOf = (token: string): Buffer => hash("sha256", token, "buffer");
