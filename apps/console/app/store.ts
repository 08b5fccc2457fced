/** A value outside of components that they follow. */
import { useSyncExternalStore } from "react";

export interface Store<Value> {
  get(): Value;
  set(next: Value): void;
  /** A hook. */
  use(): Value;
}

export function storeOf<Value>(initial: Value): Store<Value> {
  let value = initial;
  const followers = new Set<() => void>();
  const follow = (changed: () => void) => {
    followers.add(changed);
    return () => followers.delete(changed);
  };
  return {
    get: () => value,
    set(next) {
      value = next;
      for (const changed of followers) changed();
    },
    use: () => useSyncExternalStore(follow, () => value),
  };
}
