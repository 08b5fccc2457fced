/** Connections to a Postgres server that run COPY too. */
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { PostgresPool, PostgresPoolClient } from "kysely";
import type { Pool } from "pg";
import { from } from "pg-copy-streams";
import { isCopy } from "./copy-text.ts";

export const copyingPool = (pool: Pool): PostgresPool => ({
  async connect() {
    const client = await pool.connect();
    const query = async (statement: string, parameters: readonly unknown[]) => {
      if (!isCopy(statement)) return client.query(statement, [...parameters]);
      await pipeline(Readable.from([Buffer.from(String(parameters[0]))]), client.query(from(statement)));
      return { command: "COPY", rowCount: 0, rows: [] };
    };
    const copying: PostgresPoolClient = Object.create(client, { query: { value: query } });
    return copying;
  },
  end: () => pool.end(),
  options: pool.options,
});
