/** Job inspection for operators, on the operations port, behind a password. */
import { createHash, timingSafeEqual } from "node:crypto";
import fastifyBasicAuth from "@fastify/basic-auth";
import type { FastifyInstance, FastifyPluginCallback } from "fastify";
import { callerOf, TokenBuckets } from "#service/token-buckets.ts";
import { operatorAddressesMax, wrongOperatorPasswords } from "./common/bounds.ts";

const basePath = "/queues";
const operatorName = "operator";

/** The board has inline styles, and asks another server for fonts, which it does not get. */
const policy = [
  "default-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "object-src 'none'",
  "frame-ancestors 'none'",
  "base-uri 'self'",
  "form-action 'self'",
].join("; ");

/** A page that lists the jobs of queues. */
export interface Board {
  plugin: FastifyPluginCallback<{ prefix?: string }>;
  /** Shows what was added since. */
  refresh(): void;
}

/**
 * Serves the board under /queues for the user `operator` with this password. `boardAt` makes it for
 * a path. It is read-only, because jobs belong to their owners.
 */
export async function addInspection(
  operations: FastifyInstance,
  boardAt: (basePath: string) => Promise<Board>,
  password: () => string | undefined,
): Promise<void> {
  const board = await boardAt(basePath);
  const attempts = new TokenBuckets({ ...wrongOperatorPasswords, keysMax: operatorAddressesMax });
  await operations.register(async (scope) => {
    scope.addHook("onRequest", async (_request, reply) => {
      reply.header("content-security-policy", policy).header("x-content-type-options", "nosniff");
    });
    await scope.register(fastifyBasicAuth, {
      authenticate: { realm: "sluice" },
      validate: async (name, sentPassword, { ip }, reply) => {
        const waitSeconds = attempts.take(callerOf(ip));
        if (waitSeconds > 0) {
          reply.header("retry-after", waitSeconds);
          throw Object.assign(new Error("Too many wrong passwords from this address"), { statusCode: 429 });
        }
        if (name !== operatorName || !isSame(sentPassword, password()))
          throw Object.assign(new Error("Unauthorized"), { statusCode: 401 });
        attempts.giveBack(callerOf(ip));
      },
    });
    scope.addHook("onRequest", scope.basicAuth);
    scope.addHook("onRequest", async () => board.refresh());
    await scope.register(board.plugin, { prefix: basePath });
  });
}

const isSame = (left: string, right = "") =>
  right !== "" &&
  timingSafeEqual(createHash("sha256").update(left).digest(), createHash("sha256").update(right).digest());
