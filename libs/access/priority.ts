/** The priorities of requests on a busy queue, from the first to be served to the last. */
export const priorityNames = ["interactive", "normal", "background"] as const;
export type PriorityName = (typeof priorityNames)[number];
