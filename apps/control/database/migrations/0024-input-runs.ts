/** The run of the intake that has stored the chunks of a batch. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`alter table batches add column input_run int not null default 0`.execute(database);
}
