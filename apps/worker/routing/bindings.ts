/**
 * Where sessions are served, for those that are not served at their first place. Every worker has
 * all of them in memory, so that a request asks Redis for none; a session that moves costs one
 * command, which stores its binding and announces it.
 */
import { setNewest } from "#service/newest.ts";
import { bindingMs, bindingRenewedMs, bindingsMax } from "../bounds.ts";
import { Announcements, type AnnouncementsDeps } from "./announcements.ts";

interface Binding {
  place: string;
  usedAt: number;
  announcedAt: number;
}

export class Bindings {
  readonly #clock: AnnouncementsDeps["clock"];
  readonly #announcements: Announcements;
  /** The one that was used longest ago is the first. */
  readonly #bindings = new Map<string, Binding>();

  constructor({ keyspace, ...deps }: AnnouncementsDeps) {
    this.#clock = deps.clock;
    this.#announcements = new Announcements({
      ...deps,
      keyspace,
      names: { stream: keyspace.bindings, channel: keyspace.bindingsChanged },
      entriesMax: bindingsMax,
      lifeMs: bindingMs + bindingRenewedMs,
      hear: (session, place, ageMs) => {
        if (ageMs < bindingMs) this.#set(session, place, deps.clock.now() - ageMs);
      },
    });
  }

  /** Reads what is bound, and follows changes. Without Redis, nothing is bound at first. */
  start(): Promise<void> {
    return this.#announcements.start();
  }

  get size(): number {
    return this.#bindings.size;
  }

  close(): void {
    this.#announcements.close();
  }

  /** The place that serves a session, if it is not its first one. */
  placeOf(session: string): string | undefined {
    const binding = this.#bindings.get(session);
    if (binding === undefined || binding.usedAt + bindingMs > this.#clock.now()) return binding?.place;
    this.#bindings.delete(session);
    return undefined;
  }

  /**
   * A place served the session; undefined for its first one, or for none after a failure. A known
   * binding is only renewed, now and then.
   */
  bind(session: string, place: string | undefined): void {
    const now = this.#clock.now();
    const binding = this.#bindings.get(session);
    if (binding?.place === place) {
      if (binding === undefined) return;
      setNewest(this.#bindings, session, { ...binding, usedAt: now }, bindingsMax);
      if (now - binding.announcedAt < bindingRenewedMs) return;
    }
    this.#set(session, place, now);
    this.#announcements.announce(session, place ?? "");
  }

  #set(session: string, place: string | undefined, at: number): void {
    if (place === undefined || place === "") this.#bindings.delete(session);
    else setNewest(this.#bindings, session, { place, usedAt: at, announcedAt: at }, bindingsMax);
  }
}
