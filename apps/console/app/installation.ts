/**
 * The name and the logo of this installation. Control writes them into the page, so they are there
 * from its first moment.
 */
import { useSyncExternalStore } from "react";

export interface Installation {
  name: string;
  /** The address of the logo; undefined without one. */
  logo: string | undefined;
}

const given = (name: string) => document.querySelector<HTMLMetaElement>(`meta[name="${name}"]`)?.content;

let installation: Installation = { name: given("installation") ?? "Sluice", logo: given("logo") };
const followers = new Set<() => void>();

/** After a change of the settings. */
export function setInstallation(next: Installation): void {
  installation = next;
  for (const follow of followers) follow();
}

const follow = (changed: () => void) => {
  followers.add(changed);
  return () => followers.delete(changed);
};

export const useInstallation = (): Installation => useSyncExternalStore(follow, () => installation);
