/** Accounts with their members and keys, tokens of machines, and the audit log. */
import { type Kysely, sql } from "kysely";

const statements = [
  `create table accounts (
    id text primary key,
    name text not null,
    created_at timestamptz not null,
    disabled_at timestamptz,
    version int not null default 1
  )`,
  `create table keys (
    id text primary key,
    hash text not null unique,
    hint text not null,
    account text not null references accounts,
    name text not null,
    group_name text not null,
    models jsonb,
    limits jsonb,
    addresses jsonb,
    origins jsonb,
    tags jsonb not null default '[]',
    created_at timestamptz not null,
    expires_at timestamptz,
    revoked_at timestamptz,
    replaced_by text references keys,
    version int not null default 1
  )`,
  "create index keys_by_account on keys (account, created_at desc, id)",
  `create table members (
    account text not null references accounts,
    user_id text not null,
    role text not null,
    created_at timestamptz not null,
    primary key (account, user_id)
  )`,
  "create index members_by_user on members (user_id)",
  `create table invitations (
    id text primary key,
    account text not null references accounts,
    email text,
    role text not null,
    hash text not null unique,
    invited_by text not null,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    accepted_at timestamptz,
    accepted_by text
  )`,
  `create table tokens (
    id text primary key,
    name text not null,
    hash text not null unique,
    hint text not null,
    scopes jsonb not null,
    created_at timestamptz not null,
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz
  )`,
  `create table audit (
    id text primary key,
    at timestamptz not null,
    actor_kind text not null,
    actor_id text not null,
    actor_name text not null,
    address text not null,
    action text not null,
    account text,
    subject text not null,
    before jsonb,
    after jsonb
  )`,
  "create index audit_by_time on audit (at desc, id)",
  "create index audit_by_account on audit (account, at desc, id)",
];

export async function up(database: Kysely<unknown>): Promise<void> {
  for (const statement of statements) await sql.raw(statement).execute(database);
}
