/** All operations of control's API, by name. */
import { accountOperations } from "./accounts.ts";
import type { Operation } from "./operation.ts";
import { usageOperations } from "./usage.ts";

export const operations = {
  ...accountOperations,
  ...usageOperations,
} as const satisfies Record<string, Operation>;

export type OperationName = keyof typeof operations;
