/**
 * A read-only page for operators that lists the jobs of queues, with bull-board. Callers' content
 * is not shown.
 */
import { createBullBoard } from "@bull-board/api";
import { BullMQAdapter } from "@bull-board/api/bullMQAdapter";
import { FastifyAdapter } from "@bull-board/fastify";
import { Queue } from "bullmq";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import type { QueuedJob } from "../job.ts";

export interface QueueBoardOptions {
  /** For the purpose `request`; the caller closes it. */
  redis: Redis;
  keyspace: Keyspace;
  /** The path of the page. */
  basePath: string;
  onError(error: Error): void;
}

export class QueueBoard {
  readonly #options: QueueBoardOptions;
  readonly #adapter = new FastifyAdapter();
  readonly #add: (queue: BullMQAdapter) => void;
  readonly #shownParts = new Set<string>();

  constructor(options: QueueBoardOptions) {
    this.#options = options;
    this.#adapter.setBasePath(options.basePath);
    const { addQueue } = createBullBoard({ queues: [], serverAdapter: this.#adapter });
    this.#add = addQueue;
  }

  /** The Fastify plugin of the page, without authentication. */
  get plugin() {
    return this.#adapter.registerPlugin();
  }

  /** Adds parts of queues that the page does not show yet. */
  show(parts: Iterable<string>): void {
    const { redis, keyspace, onError } = this.#options;
    for (const part of parts) {
      if (this.#shownParts.has(part)) continue;
      this.#shownParts.add(part);
      const options = { connection: redis, prefix: keyspace.queuePrefix(part), skipMetasUpdate: true };
      const queue = new Queue(part, options).on("error", onError);
      const adapter = new BullMQAdapter(queue, { readOnlyMode: true });
      adapter.setFormatter("data", ({ generations }: QueuedJob) =>
        generations.map(({ body, delivered, ...rest }) => ({ ...rest, ...lengthsOf({ body, delivered }) })),
      );
      this.#add(adapter);
    }
  }
}

const lengthsOf = (texts: Record<string, string | null | undefined>) =>
  Object.fromEntries(
    Object.entries(texts).map(([name, text]) => [name, text == null ? text : `${text.length} characters, not shown`]),
  );
