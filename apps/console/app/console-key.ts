/**
 * Keys with which the console's pages call the gateway from the browser. The API shows a key once
 * and stores a hash, so the console creates keys of its own: for this origin, valid for hours, and
 * kept in memory only. Their ids, which are no secrets, stay with the tab: a reload revokes the
 * keys that it has forgotten.
 */
import { call } from "./call.ts";
import { queryClient } from "./queries.ts";

export interface ConsoleKey {
  id: string;
  key: string;
  expiresAt: number;
}

export interface KeyWish {
  account: string;
  group: string;
  /** The name of the person. */
  person: string;
  /** The address of the gateway, without /v1. */
  baseUrl: string;
}

const hoursValid = 8;
/** A key that expires sooner is replaced. */
const remainingMsMin = 600_000;
const nameMax = 100;
const idsStored = "sluice-console-keys";
/** Gateways know a new key within a second. */
const usableTries = 20;
const usablePauseMs = 150;

const keys = new Map<string, Promise<ConsoleKey>>();
let formerIds: string[] | undefined;

const placeOf = ({ account, group }: KeyWish) => `${account}/${group}`;

/** Rejects with an ApiFault if the person may not create keys in the account. */
export async function consoleKey(wish: KeyWish): Promise<ConsoleKey> {
  const place = placeOf(wish);
  const current = await keys.get(place)?.catch(() => undefined);
  if (current && current.expiresAt - Date.now() > remainingMsMin) return current;
  const made = create(wish);
  keys.set(place, made);
  made.catch(() => keys.delete(place));
  return made;
}

/** For a key that the gateway refuses, for example because somebody has revoked it. */
export const forgetConsoleKey = (wish: KeyWish): void => {
  keys.delete(placeOf(wish));
};

async function create({ account, group, person, baseUrl }: KeyWish): Promise<ConsoleKey> {
  revokeFormer();
  const expiresAt = Date.now() + hoursValid * 3_600_000;
  const { id, key } = await call("createKey", {
    body: {
      account,
      group,
      name: `Console of ${person}`.slice(0, nameMax),
      expiresAt: new Date(expiresAt).toISOString(),
      origins: [location.origin],
      tags: ["console"],
    },
  });
  sessionStorage.setItem(idsStored, [...storedIds(), id].join(" "));
  await untilUsable(baseUrl, key);
  void queryClient.invalidateQueries({ queryKey: ["listKeys"] });
  return { id, key, expiresAt };
}

const storedIds = (): string[] => (sessionStorage.getItem(idsStored) ?? "").split(" ").filter((id) => id !== "");

/** Revokes the keys of earlier loads of this tab, once. */
function revokeFormer(): void {
  if (formerIds !== undefined) return;
  formerIds = storedIds();
  sessionStorage.removeItem(idsStored);
  for (const key of formerIds) void call("revokeKey", { params: { key } }).catch(() => undefined);
}

/** The gateway answers a page's request only if some key allows the page's origin. */
async function untilUsable(baseUrl: string, key: string): Promise<void> {
  for (let tries = 0; tries < usableTries; tries++) {
    await new Promise((resolve) => setTimeout(resolve, usablePauseMs));
    const response = await fetch(`${baseUrl}/v1/models`, { headers: { authorization: `Bearer ${key}` } }).catch(
      () => undefined,
    );
    if (response && response.status !== 401 && response.status !== 403) return;
  }
}
