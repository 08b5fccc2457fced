/** Job inspection for operators: bull-board on the operations port, behind a password. Callers' content is not shown. */
import { createHash, timingSafeEqual } from "node:crypto";
import { createBullBoard } from "@bull-board/api";
import { BullMQAdapter } from "@bull-board/api/bullMQAdapter";
import { FastifyAdapter } from "@bull-board/fastify";
import fastifyBasicAuth from "@fastify/basic-auth";
import type { FastifyInstance } from "fastify";
import type { QueuedJob } from "#relay/job.ts";
import type { RedisJobQueue } from "#relay/redis/job-queue.ts";
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

/** Serves the board of these queues, by name, under /queues for the user `operator` with this password. It is read-only, because jobs belong to their owners. */
export async function addInspection(
  operations: FastifyInstance,
  queues: ReadonlyMap<string, RedisJobQueue>,
  password: string,
): Promise<void> {
  const board = new FastifyAdapter();
  board.setBasePath(basePath);
  const { addQueue } = createBullBoard({ queues: [], serverAdapter: board });
  const shown = new Set<string>();
  /** The catalogue may have added queues. */
  const showQueues = async () => {
    for (const bull of [...queues.values()].flatMap(({ bulls }) => bulls)) {
      if (shown.has(bull.name)) continue;
      shown.add(bull.name);
      const adapter = new BullMQAdapter(bull, { readOnlyMode: true });
      adapter.setFormatter("data", ({ generations }: QueuedJob) =>
        generations.map(({ body, delivered, ...rest }) => ({ ...rest, ...hidden({ body, delivered }) })),
      );
      addQueue(adapter);
    }
  };
  const attempts = new TokenBuckets({ ...wrongOperatorPasswords, keysMax: operatorAddressesMax });
  await operations.register(async (scope) => {
    scope.addHook("onRequest", async (_request, reply) => {
      reply.header("content-security-policy", policy).header("x-content-type-options", "nosniff");
    });
    await scope.register(fastifyBasicAuth, {
      authenticate: { realm: "sluice" },
      validate: async (name, given, { ip }, reply) => {
        const waitSeconds = attempts.take(callerOf(ip));
        if (waitSeconds > 0) {
          reply.header("retry-after", waitSeconds);
          throw Object.assign(new Error("Too many wrong passwords from this address"), { statusCode: 429 });
        }
        if (name !== operatorName || !isSame(given, password))
          throw Object.assign(new Error("Unauthorized"), { statusCode: 401 });
        attempts.giveBack(callerOf(ip));
      },
    });
    scope.addHook("onRequest", scope.basicAuth);
    scope.addHook("onRequest", showQueues);
    await scope.register(board.registerPlugin(), { prefix: basePath });
  });
}

const hidden = (texts: Record<string, string | null | undefined>) =>
  Object.fromEntries(
    Object.entries(texts).map(([name, text]) => [name, text == null ? text : `${text.length} characters, not shown`]),
  );

const isSame = (left: string, right: string) =>
  timingSafeEqual(createHash("sha256").update(left).digest(), createHash("sha256").update(right).digest());
