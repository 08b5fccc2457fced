/** All operations of control's API, by name. */
import { accountOperations } from "./accounts.ts";
import { alertOperations } from "./alerts.ts";
import { auditOperations } from "./audit.ts";
import { batchErrorOperations } from "./batch-errors.ts";
import { batchOperations } from "./batches.ts";
import { catalogueOperations } from "./catalogue.ts";
import { catalogueEntryOperations } from "./catalogue-entries.ts";
import { catalogueFileOperations } from "./catalogue-file.ts";
import { catalogueRevisionOperations } from "./catalogue-revisions.ts";
import { contentOperations } from "./content.ts";
import { credentialOperations } from "./credentials.ts";
import { fileOperations } from "./files.ts";
import { keyOperations } from "./keys.ts";
import { liveOperations } from "./live.ts";
import { memberOperations } from "./members.ts";
import type { Operation } from "./operation.ts";
import { peopleOperations } from "./people.ts";
import { priceOperations } from "./prices.ts";
import { settingsOperations } from "./settings.ts";
import { tokenOperations } from "./tokens.ts";
import { trialOperations } from "./trials.ts";
import { usageOperations } from "./usage.ts";
import { vendorOperations } from "./vendors.ts";
import { viewOperations } from "./views.ts";
import { webhookOperations } from "./webhooks.ts";

export const operations = {
  ...accountOperations,
  ...alertOperations,
  ...usageOperations,
  ...contentOperations,
  ...peopleOperations,
  ...memberOperations,
  ...tokenOperations,
  ...auditOperations,
  ...keyOperations,
  ...catalogueOperations,
  ...catalogueFileOperations,
  ...catalogueEntryOperations,
  ...catalogueRevisionOperations,
  ...credentialOperations,
  ...vendorOperations,
  ...priceOperations,
  ...trialOperations,
  ...liveOperations,
  ...settingsOperations,
  ...viewOperations,
  ...batchOperations,
  ...batchErrorOperations,
  ...fileOperations,
  ...webhookOperations,
} as const satisfies Record<string, Operation>;

export type OperationName = keyof typeof operations;
