/** All operations of control's API, by name. */
import { accountOperations } from "./accounts.ts";
import type { Operation } from "./operation.ts";

export const operations = {
  ...accountOperations,
} as const satisfies Record<string, Operation>;

export type OperationName = keyof typeof operations;
