/** The lowest protocol whose processes can use the tables: one row. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`create table protocol (id int primary key default 1 check (id = 1), oldest int not null)`.execute(database);
  await sql`insert into protocol (oldest) values (1)`.execute(database);
}
