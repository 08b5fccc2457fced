/**
 * Brings the tables up to date at start. Migrations only go forward, each in its own transaction;
 * several processes may start at once. A migration must leave the tables usable for the release
 * before it: it adds, and removes only what that release no longer uses. So that release also
 * starts with the tables of the next one, which is how an upgrade is taken back.
 */
import { type Kysely, sql } from "kysely";
import { DEFAULT_MIGRATION_TABLE, type Migration, Migrator } from "kysely/migration";
import { protocols as ownProtocols, type Protocols } from "#service/protocol.ts";
import { up as ledger } from "./migrations/0001-ledger.ts";
import { up as accounts } from "./migrations/0002-accounts.ts";
import { up as signIn } from "./migrations/0003-sign-in.ts";
import { up as keys } from "./migrations/0004-keys.ts";
import { up as alerts } from "./migrations/0005-alerts.ts";
import { up as accountGroups } from "./migrations/0006-account-groups.ts";
import { up as usageErrors } from "./migrations/0007-usage-errors.ts";
import { up as usageCalls } from "./migrations/0008-usage-calls.ts";
import { up as settings } from "./migrations/0010-settings.ts";
import { up as views } from "./migrations/0011-views.ts";
import { up as content } from "./migrations/0012-content.ts";
import { up as usageUnits } from "./migrations/0013-usage-units.ts";
import { up as mailedInvitations } from "./migrations/0014-mailed-invitations.ts";
import { up as cacheSavings } from "./migrations/0015-cache-savings.ts";
import { up as keyPriority } from "./migrations/0016-key-priority.ts";
import { up as files } from "./migrations/0017-files.ts";
import { up as batches } from "./migrations/0018-batches.ts";
import { up as uploads } from "./migrations/0019-uploads.ts";
import { up as webhooks } from "./migrations/0020-webhooks.ts";
import { up as catalogue } from "./migrations/0021-catalogue.ts";
import { up as credentials } from "./migrations/0022-credentials.ts";
import { up as outdatedSegments } from "./migrations/0023-outdated-segments.ts";
import { up as inputRuns } from "./migrations/0024-input-runs.ts";
import { up as labels } from "./migrations/0025-labels.ts";
import { up as vendorBatches } from "./migrations/0026-vendor-batches.ts";
import { up as usageExports } from "./migrations/0027-usage-exports.ts";
import { up as mappedMembers } from "./migrations/0028-mapped-members.ts";
import { up as unpricedUnits } from "./migrations/0029-unpriced-units.ts";

/** In the order of their names. */
const migrations: Record<string, Migration> = {
  "0001-ledger": { up: ledger },
  "0002-accounts": { up: accounts },
  "0003-sign-in": { up: signIn },
  "0004-keys": { up: keys },
  "0005-alerts": { up: alerts },
  "0006-account-groups": { up: accountGroups },
  "0007-usage-errors": { up: usageErrors },
  "0008-usage-calls": { up: usageCalls },
  "0010-settings": { up: settings },
  "0011-views": { up: views },
  "0012-content": { up: content },
  "0013-usage-units": { up: usageUnits },
  "0014-mailed-invitations": { up: mailedInvitations },
  "0015-cache-savings": { up: cacheSavings },
  "0016-key-priority": { up: keyPriority },
  "0017-files": { up: files },
  "0018-batches": { up: batches },
  "0019-uploads": { up: uploads },
  "0020-webhooks": { up: webhooks },
  "0021-catalogue": { up: catalogue },
  "0022-credentials": { up: credentials },
  "0023-outdated-segments": { up: outdatedSegments },
  "0024-input-runs": { up: inputRuns },
  "0025-labels": { up: labels },
  "0026-vendor-batches": { up: vendorBatches },
  "0027-usage-exports": { up: usageExports },
  "0028-mapped-members": { up: mappedMembers },
  "0029-unpriced-units": { up: unpricedUnits },
};
const lastOwn = Object.keys(migrations).at(-1) as string;

/** Migrations of later releases that the tables have. */
async function laterMigrations<Tables>(database: Kysely<Tables>): Promise<Record<string, Migration>> {
  const tables = await database.introspection.getTables({ withInternalKyselyTables: true });
  if (!tables.some(({ name }) => name === DEFAULT_MIGRATION_TABLE)) return {};
  const { rows } = await sql<{ name: string }>`
    select name from ${sql.table(DEFAULT_MIGRATION_TABLE)} where name > ${lastOwn}`.execute(database);
  return Object.fromEntries(rows.map(({ name }) => [name, { up: async () => {} }]));
}

/** A number of our own for the lock. */
const protocolLock = 7_201_015;

/**
 * Keeps the lowest protocol whose processes can use the tables. It is no migration, because earlier
 * releases refuse tables with a migration that they do not know.
 */
const raiseOldest = <Tables>(database: Kysely<Tables>, oldest: number): Promise<number> =>
  database.transaction().execute(async (transaction) => {
    await sql`select pg_advisory_xact_lock(${protocolLock})`.execute(transaction);
    await sql`
      create table if not exists protocol (id int primary key default 1 check (id = 1), oldest int not null)`.execute(
      transaction,
    );
    const { rows } = await sql<{ oldest: number }>`
      insert into protocol (oldest) values (${oldest})
      on conflict (id) do update set oldest = greatest(protocol.oldest, excluded.oldest)
      returning oldest`.execute(transaction);
    return rows[0]?.oldest ?? oldest;
  });

/** Rejects if a later release no longer lets this one use the tables. */
export async function migrate<Tables>(
  database: Kysely<Tables>,
  { oldest, current }: Protocols = ownProtocols,
): Promise<void> {
  const later = await laterMigrations(database);
  const migrator = new Migrator({
    db: database,
    provider: { getMigrations: async () => ({ ...migrations, ...later }) },
  });
  const { error } = await migrator.migrateToLatest();
  if (error !== undefined) throw error;
  if ((await raiseOldest(database, oldest)) > current)
    throw new Error("its tables are those of a later version; start that one, or the one before it");
}
