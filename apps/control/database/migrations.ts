/**
 * Brings the tables up to date at start. Migrations only go forward, each in its own transaction;
 * several processes may start at once. A migration must leave the tables usable for the version
 * before it: it adds, and removes only what that version no longer uses.
 */
import type { Kysely } from "kysely";
import { type Migration, Migrator } from "kysely/migration";
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
};

export async function migrate<Tables>(database: Kysely<Tables>): Promise<void> {
  const migrator = new Migrator({ db: database, provider: { getMigrations: async () => migrations } });
  const { error } = await migrator.migrateToLatest();
  if (error !== undefined) throw error;
}
