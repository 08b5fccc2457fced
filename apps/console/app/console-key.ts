/**
 * Keys with which the console's pages call the gateway from the browser. The API shows a key once
 * and stores a hash, so the console creates keys of its own: for this origin, valid for hours, and
 * kept by the tab until it closes or the person signs out.
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
const keysStored = "sluice-console-keys";
/** Gateways know a new key within a second. */
const usableTries = 20;
const usablePauseMs = 150;

const keys = new Map<string, Promise<ConsoleKey>>();

const placeOf = ({ account, group, person }: KeyWish) => `${account}/${group}/${person}`;

function storedKeys(): Record<string, ConsoleKey> {
  try {
    return JSON.parse(sessionStorage.getItem(keysStored) ?? "{}") as Record<string, ConsoleKey>;
  } catch {
    return {};
  }
}

/** Undefined forgets it. */
const storeKey = (place: string, key: ConsoleKey | undefined) =>
  sessionStorage.setItem(keysStored, JSON.stringify({ ...storedKeys(), [place]: key }));

/**
 * Calls at the same time share a key. Rejects with an ApiFault if the person may not create keys in
 * the account.
 */
export function consoleKey(wish: KeyWish): Promise<ConsoleKey> {
  const place = placeOf(wish);
  const valid = async () => {
    const current = (await keys.get(place)?.catch(() => undefined)) ?? storedKeys()[place];
    return current && current.expiresAt - Date.now() > remainingMsMin ? current : create(wish);
  };
  const promised = valid();
  keys.set(place, promised);
  return promised;
}

/** For a key that the gateway refuses, for example because somebody has revoked it. */
export const forgetConsoleKey = (wish: KeyWish): void => {
  keys.delete(placeOf(wish));
  storeKey(placeOf(wish), undefined);
};

/** Revokes the tab's keys: the person leaves. */
export async function revokeConsoleKeys(): Promise<void> {
  const all = Object.values(storedKeys());
  sessionStorage.removeItem(keysStored);
  keys.clear();
  await Promise.all(all.map(({ id }) => call("revokeKey", { params: { key: id } }).catch(() => undefined)));
}

async function create(wish: KeyWish): Promise<ConsoleKey> {
  const { account, group, person, baseUrl } = wish;
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
  const made = { id, key, expiresAt };
  storeKey(placeOf(wish), made);
  await untilUsable(baseUrl, key);
  void queryClient.invalidateQueries({ queryKey: ["listKeys"] });
  return made;
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
