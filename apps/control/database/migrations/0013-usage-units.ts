/** Units of usage records that some vendors bill apart from tokens of text, such as searches. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`alter table usage add column other_units jsonb`.execute(database);
}
