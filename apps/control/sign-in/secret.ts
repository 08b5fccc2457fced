/** The secret that signs cookies and encrypts second factors and stored settings. */
import { randomBytes } from "node:crypto";
import type { Database } from "../database/database.ts";

/** Its name in the table of secrets. */
export const authSecretName = "auth";

/** AUTH_SECRET, or one in the database, which is the same for all its processes. */
export async function authSecretOf(database: Database, configuredSecret: string | undefined): Promise<string> {
  if (configuredSecret !== undefined) return configuredSecret;
  await database
    .insertInto("secrets")
    .values({ name: authSecretName, value: randomBytes(32).toString("base64url") })
    .onConflict((conflict) => conflict.column("name").doNothing())
    .execute();
  const { value } = await database
    .selectFrom("secrets")
    .select("value")
    .where("name", "=", authSecretName)
    .executeTakeFirstOrThrow();
  return value;
}
