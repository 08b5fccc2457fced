/**
 * Users with their logins and sessions, in the form that better-auth expects (its column names are
 * in camelCase), and the secrets that control makes for itself.
 */
import { type Kysely, sql } from "kysely";

const statements = [
  `create table users (
    id text primary key,
    name text not null,
    email text not null unique,
    "emailVerified" boolean not null,
    image text,
    "createdAt" timestamptz not null default current_timestamp,
    "updatedAt" timestamptz not null default current_timestamp,
    "twoFactorEnabled" boolean,
    "isOperator" boolean not null
  )`,
  `create table sessions (
    id text primary key,
    "expiresAt" timestamptz not null,
    token text not null unique,
    "createdAt" timestamptz not null default current_timestamp,
    "updatedAt" timestamptz not null,
    "ipAddress" text,
    "userAgent" text,
    "userId" text not null references users on delete cascade,
    method text
  )`,
  `create index "sessions_userId_idx" on sessions ("userId")`,
  `create table logins (
    id text primary key,
    "accountId" text not null,
    "providerId" text not null,
    "userId" text not null references users on delete cascade,
    "accessToken" text,
    "refreshToken" text,
    "idToken" text,
    "accessTokenExpiresAt" timestamptz,
    "refreshTokenExpiresAt" timestamptz,
    scope text,
    password text,
    "createdAt" timestamptz not null default current_timestamp,
    "updatedAt" timestamptz not null,
    unique ("providerId", "accountId")
  )`,
  `create index "logins_userId_idx" on logins ("userId")`,
  `create table verifications (
    id text primary key,
    identifier text not null,
    value text not null,
    "expiresAt" timestamptz not null,
    "createdAt" timestamptz not null default current_timestamp,
    "updatedAt" timestamptz not null default current_timestamp
  )`,
  "create index verifications_identifier_idx on verifications (identifier)",
  `create table second_factors (
    id text primary key,
    secret text not null,
    "backupCodes" text not null,
    "userId" text not null references users on delete cascade,
    verified boolean,
    "failedVerificationCount" integer,
    "lockedUntil" timestamptz
  )`,
  "create index second_factors_secret_idx on second_factors (secret)",
  `create index "second_factors_userId_idx" on second_factors ("userId")`,
  `create table secrets (
    name text primary key,
    value text not null
  )`,
  "create index audit_by_actor on audit (actor_id, at desc, id)",
];

export async function up(database: Kysely<unknown>): Promise<void> {
  for (const statement of statements) await sql.raw(statement).execute(database);
}
