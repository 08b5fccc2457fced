/** All operations of control's API, by name. */
import { accountOperations } from "./accounts.ts";
import { keyOperations } from "./keys.ts";
import type { Operation } from "./operation.ts";

export const operations = {
  ...accountOperations,
  ...keyOperations,
} as const satisfies Record<string, Operation>;

export type OperationName = keyof typeof operations;
