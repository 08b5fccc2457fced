/** The settings of the installation that operators change in the console: at most one row. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`
    create table settings (
      id int primary key check (id = 1),
      version int not null,
      stored jsonb not null,
      sealed jsonb not null,
      logo jsonb
    )`.execute(database);
}
