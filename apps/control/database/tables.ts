/** The tables of control, as Kysely knows them. */
import type { ColumnType } from "kysely";
import type { Limits } from "#access/limits.ts";
import type { PriorityName } from "#access/priority.ts";
import type { webhookEvents } from "#api/vocabulary.ts";
import type { deliveryStates } from "#api/webhooks.ts";
import type { UnansweredReason } from "../batches/format.ts";
import type { BatchDialect } from "../batches/formats.ts";
import type { InputFault } from "../batches/input-check.ts";
import type { BatchState } from "../batches/state.ts";
import type { VendorBatch } from "../batches/vendor-batch.ts";
import type { Dimension, LabelKind, Measure, UsageRow } from "../ledger/columns.ts";
import type { SignInTables } from "../sign-in/tables.ts";

type Totals = Record<Dimension, string> & Record<Measure, bigint>;
type UsageTotalsRow = { half_hour: Date } & Totals;
type UsageDaysRow = { day: Date } & Totals;
/** `value` is `otherLabels` for those beyond the bound. */
interface Label {
  kind: LabelKind;
  value: string;
}
type LabelTotalsRow = UsageTotalsRow & Label;
type LabelDaysRow = UsageDaysRow & Label;
/** The labels of an account and day that have totals of their own. */
type LabelValueRow = { day: Date; account: string } & Label;

type WebhookEvent = (typeof webhookEvents)[number];
type DeliveryState = (typeof deliveryStates)[number];

/** Written as JSON text, read as its value. */
type Json<Value> = ColumnType<Value, string, string>;
/** Has a default. */
type Version = ColumnType<number, number | undefined, number>;

export interface AccountRow {
  id: string;
  name: string;
  created_at: Date;
  disabled_at: Date | null;
  /** Null for all. */
  groups: ColumnType<string[] | null, string[] | null | undefined, string[] | null>;
  /** How many days content of requests is stored; null for none. */
  content_days: ColumnType<number | null, number | null | undefined, number | null>;
  /**
   * The public key that it is sealed for, and the private key, encrypted with AUTH_SECRET. Both are
   * null for none.
   */
  content_key: ColumnType<string | null, string | null | undefined, string | null>;
  content_secret: ColumnType<string | null, string | null | undefined, string | null>;
  version: Version;
}

interface ContentRow {
  generation_id: string;
  account: string;
  received_at: Date;
  sealed: Buffer;
}

export interface KeyRow {
  id: string;
  hash: string;
  hint: string;
  account: string;
  name: string;
  group_name: string;
  models: Json<string[]> | null;
  limits: Json<Limits> | null;
  addresses: Json<string[]> | null;
  origins: Json<string[]> | null;
  priority: PriorityName | null;
  tags: Json<string[]>;
  created_at: Date;
  expires_at: Date | null;
  revoked_at: Date | null;
  replaced_by: string | null;
  version: Version;
}

export type Role = "owner" | "member" | "reader";

interface MemberRow {
  account: string;
  user_id: string;
  role: Role;
  created_at: Date;
  /** It follows from the provider's groups. */
  is_mapped: ColumnType<boolean, boolean | undefined, boolean>;
}

export interface InvitationRow {
  id: string;
  account: string;
  email: string | null;
  role: Role;
  hash: string;
  invited_by: string;
  created_at: Date;
  expires_at: Date;
  accepted_at: Date | null;
  accepted_by: string | null;
  is_mailed: boolean;
}

export interface TokenRow {
  id: string;
  name: string;
  hash: string;
  hint: string;
  scopes: Json<string[]>;
  created_at: Date;
  expires_at: Date | null;
  revoked_at: Date | null;
  last_used_at: Date | null;
}

interface AuditRow {
  id: string;
  at: Date;
  actor_kind: string;
  actor_id: string;
  actor_name: string;
  address: string;
  action: string;
  account: string | null;
  subject: string;
  before: Json<unknown> | null;
  after: Json<unknown> | null;
}

interface IdempotentAnswerRow {
  /** The SHA-256 of the caller, the operation and the `Idempotency-Key`. */
  id: string;
  /** The HMAC-SHA-256 of what the caller sent, with the `Idempotency-Key`. */
  request: string;
  /** Sealed; null until the first call has ended. */
  answer: string | null;
  version: number | null;
  created_at: Date;
}

interface AlertRow {
  id: string;
  at: Date;
  kind: string;
  account: string | null;
  subject: string;
  detail: Json<Record<string, unknown>>;
  occasion: string;
  attempts: ColumnType<number, number | undefined, number>;
  /** Null when it is delivered, given up, or not to be delivered. */
  next_attempt_at: Date | null;
  delivered_at: ColumnType<Date | null, Date | null | undefined, Date | null>;
}

/** One row, once something was changed. */
interface SettingsRow {
  id: number;
  version: number;
  /** By name. */
  stored: Json<Record<string, unknown>>;
  /** Secrets by name, each sealed. */
  sealed: Json<Record<string, string>>;
  logo: Json<{ type: string; data: string }> | null;
}

export interface ViewRow {
  id: string;
  user_id: string;
  /** Whose members see it too; null for its person alone. */
  account: string | null;
  page: string;
  name: string;
  search: Json<Record<string, string>>;
  created_at: Date;
}

export interface FileRow {
  /** The vendors' APIs name it `file-<id>`, `file_<id>` and `files/<id>`. */
  id: string;
  account: string;
  /** The key that uploaded it. */
  key_id: string;
  name: string;
  purpose: string;
  media_type: string;
  /** Its size; while it arrives, the bytes that are reserved for it. */
  bytes: bigint;
  /**
   * Only a file that is `ready` is visible. `arriving`: its bytes are on their way. `uploading`:
   * its parts are; each is a row of its own that is `arriving`, then a `part`, then `joined` to the
   * file. `deleted`: it goes with its objects.
   */
  state: "arriving" | "ready" | "deleted" | "uploading" | "part" | "joined";
  /** The key of its object, sealed for the account. */
  sealed_key: string;
  created_at: Date;
  /** Null for never. */
  expires_at: Date | null;
  /** The file that this is a part of, and its place among the parts, from 0. */
  upload: string | null;
  place: number | null;
  /** How long a file is kept whose parts arrive; null for ever. */
  life_seconds: number | null;
  /** The number of objects with its bytes, in place of one of its own. */
  parts: number;
}

export interface BatchRow {
  id: string;
  account: string;
  key_id: string;
  dialect: BatchDialect;
  /** The path of its requests. */
  endpoint: string;
  /** Null for several. */
  model: string | null;
  name: string | null;
  state: BatchState;
  input_file_id: string | null;
  output_file_id: string | null;
  error_file_id: string | null;
  output_expires_seconds: number | null;
  metadata: Json<Record<string, string>> | null;
  /** Why its input was refused. */
  faults: ColumnType<InputFault[], string | undefined, string>;
  /** Why no further lines are executed. */
  stop_reason: UnansweredReason | null;
  is_cancelled: ColumnType<boolean, boolean | undefined, boolean>;
  /** Its lines; 0 until its input was checked. */
  total: ColumnType<number, number | undefined, number>;
  /** Counts of lines; null until it is over. */
  succeeded: number | null;
  errored: number | null;
  cancelled: number | null;
  expired: number | null;
  /** The estimate of its lines' input. */
  tokens: ColumnType<bigint, bigint | undefined, bigint>;
  created_at: Date;
  expires_at: Date;
  started_at: Date | null;
  cancelling_at: Date | null;
  finalizing_at: Date | null;
  ended_at: Date | null;
  lease_until: Date | null;
  /** When one of its chunks was last taken. */
  claimed_at: ColumnType<Date | null, Date | null | undefined, Date | null>;
  runs: ColumnType<number, number | undefined, number>;
  /** The run of the intake whose chunks it has. */
  input_run: ColumnType<number, number | undefined, number>;
  /** Its end is known to webhooks. */
  is_announced: ColumnType<boolean, boolean | undefined, boolean>;
}

export interface BatchChunkRow {
  batch_id: string;
  place: number;
  /** Counts from 0. */
  first_line: number;
  lines: number;
  is_done: ColumnType<boolean, boolean | undefined, boolean>;
  succeeded: ColumnType<number, number | undefined, number>;
  errored: ColumnType<number, number | undefined, number>;
  cancelled: ColumnType<number, number | undefined, number>;
  expired: ColumnType<number, number | undefined, number>;
  /** The objects with its results so far. */
  segments: ColumnType<string[], string | undefined, string>;
  /** The names of segments that may be left of earlier ones. */
  outdated: ColumnType<string[], string | undefined, string>;
  vendor_batch: ColumnType<VendorBatch | null, string | undefined, string>;
  /** A chunk that waits for its vendor is not taken before. */
  poll_at: ColumnType<Date | null, undefined, Date | null>;
  /** When its first run began. */
  started_at: ColumnType<Date | null, Date | null | undefined, Date | null>;
  lease_until: ColumnType<Date | null, Date | null | undefined, Date | null>;
  runs: ColumnType<number, number | undefined, number>;
}

export interface WebhookRow {
  id: string;
  account: string;
  name: string;
  url: string;
  events: Json<WebhookEvent[]>;
  /** Sealed, as the one before it. */
  secret: string;
  previous_secret: ColumnType<string | null, string | null | undefined, string | null>;
  previous_secret_until: ColumnType<Date | null, Date | null | undefined, Date | null>;
  created_at: Date;
  disabled_at: ColumnType<Date | null, Date | null | undefined, Date | null>;
  disabled_reason: ColumnType<DisabledReason | null, DisabledReason | null | undefined, DisabledReason | null>;
  failing_since: ColumnType<Date | null, Date | null | undefined, Date | null>;
}

type DisabledReason = "person" | "gone" | "failing";

/** `problem` is null for an attempt that was accepted. */
interface DeliveryAttempt {
  at: string;
  status: number | null;
  problem: string | null;
  durationMs: number;
}

export interface WebhookDeliveryRow {
  id: string;
  webhook_id: string;
  account: string;
  event_id: string;
  type: string;
  subject: string;
  created_at: Date;
  state: ColumnType<DeliveryState, DeliveryState | undefined, DeliveryState>;
  /** When it was due first; retries end a day later. */
  started_at: Date;
  /** Attempts since then. */
  tries: ColumnType<number, number | undefined, number>;
  attempts: ColumnType<DeliveryAttempt[], string | undefined, string>;
  /** Null when there is none. While an attempt runs, the end of its lease. */
  next_attempt_at: Date | null;
  delivered_at: ColumnType<Date | null, Date | null | undefined, Date | null>;
}

export interface CatalogueRevisionRow {
  number: number;
  parent: number;
  /** Canonical JSON. */
  document: string;
  sha256: string;
  /** The names of the changed entries. */
  summary: string;
  comment: string;
  author_kind: string;
  author_id: string;
  author_name: string;
  created_at: Date;
}

interface CatalogueActiveRow {
  id: ColumnType<number, number | undefined, never>;
  revision: number;
  /** Grows with each change of `credentials`. */
  credentials: ColumnType<number, number | undefined, number>;
}

export interface CredentialRow {
  name: string;
  version: number;
  /** By libs/catalogue/credentials.ts, as the value before. */
  sealed: string;
  hint: string;
  previous_version: number | null;
  previous_sealed: string | null;
  previous_until: Date | null;
  created_at: Date;
  updated_at: Date;
}

interface UsageExportRow {
  hour: Date;
  format: string;
  records: ColumnType<bigint, bigint | undefined, bigint>;
  cost: ColumnType<bigint, bigint | undefined, bigint>;
  claimed_until: Date;
}

export interface Tables extends SignInTables {
  usage: UsageRow;
  usage_totals: UsageTotalsRow;
  usage_days: UsageDaysRow;
  label_totals: LabelTotalsRow;
  label_days: LabelDaysRow;
  label_values: LabelValueRow;
  usage_exports: UsageExportRow;
  accounts: AccountRow;
  keys: KeyRow;
  members: MemberRow;
  invitations: InvitationRow;
  tokens: TokenRow;
  audit: AuditRow;
  idempotent_answers: IdempotentAnswerRow;
  alerts: AlertRow;
  content: ContentRow;
  settings: SettingsRow;
  views: ViewRow;
  files: FileRow;
  batches: BatchRow;
  batch_chunks: BatchChunkRow;
  webhooks: WebhookRow;
  webhook_deliveries: WebhookDeliveryRow;
  catalogue_revisions: CatalogueRevisionRow;
  catalogue_active: CatalogueActiveRow;
  credentials: CredentialRow;
}
