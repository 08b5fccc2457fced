/**
 * Session affinity: the requests of a session go to one place, a target with one prompt cache of
 * its vendor, while it can serve them.
 *
 * A session's first place follows from hashes, by weighted rendezvous
 * (https://en.wikipedia.org/wiki/Rendezvous_hashing): all workers agree on it, and on the next one,
 * without asking anybody, and places share the sessions by their weights. Only where another place
 * has served the session does a binding say so.
 */
import { hash } from "node:crypto";
import type { CatalogueModel } from "#catalogue/catalogue.ts";
import { cacheDomainOf, credentialNamesOf } from "#catalogue/environment.ts";
import type { Bindings } from "./bindings.ts";
import type { Candidate } from "./route.ts";

interface Place {
  /** As bindings name it. */
  id: string;
  candidate: Candidate;
  /** The credentials of one cache domain; empty for an upstream without credentials. */
  credentials: readonly string[];
}

interface PlacesOfModel {
  /** The one that follows from hashes. */
  first: Place;
  /** The one that serves the session, and then the others in the session's order. */
  places: readonly Place[];
}

/**
 * For a session that may not be one: requests that open a conversation in the same way. They go to
 * the same first place, but one that another place has served says nothing about the next one.
 */
export const unbound: Pick<Bindings, "placeOf" | "bind"> = { placeOf: () => undefined, bind: () => {} };

/** Where the session of an attempt belongs. */
export class SessionRoute {
  readonly #session: string;
  readonly #bindings: Pick<Bindings, "placeOf" | "bind">;
  readonly #boundId: string | undefined;
  readonly #models = new Map<CatalogueModel, PlacesOfModel>();
  #hasFailed = false;
  #isServed = false;

  constructor(session: string, bindings: Pick<Bindings, "placeOf" | "bind">) {
    this.#session = session;
    this.#bindings = bindings;
    this.#boundId = bindings.placeOf(session);
  }

  /** Targets with weights in the session's own order. */
  readonly ranked = (neighbours: readonly Candidate[]): Candidate[] =>
    this.#byScore(neighbours, ({ key, target: { weight = 1 } }) => ({ name: key, weight }));

  /** The ranked targets of one model, the one that serves the session in front. */
  arranged(candidates: readonly Candidate[]): Candidate[] {
    const places = candidates.flatMap((candidate) => this.#placesAt(candidate));
    const [first] = places;
    if (first === undefined) return [];
    const expected = places.find(({ id }) => id === this.#boundId) ?? first;
    const ordered = [expected, ...places.filter((place) => place !== expected)];
    this.#models.set(first.candidate.model, { first, places: ordered });
    return [...new Set(ordered.map(({ candidate }) => candidate))];
  }

  /** The credentials for a target by cache domain, in the session's order. */
  credentialsAt(candidate: Candidate): (readonly string[])[] {
    return this.#placesOf(candidate).flatMap((place) => (place.candidate === candidate ? [place.credentials] : []));
  }

  /** Whether this is the place that the session is expected at. */
  expects(candidate: Candidate, credential: string | undefined): boolean {
    return this.#placeOf(candidate, credential) === this.#placesOf(candidate)[0];
  }

  /** Content arrived from there. */
  served(candidate: Candidate, credential: string | undefined): void {
    const place = this.#placeOf(candidate, credential);
    if (place === undefined) return;
    this.#isServed = true;
    // Hashes do not say where a strategy placed it.
    const isFirst = candidate.model.strategy === "weights" && place.id === this.#models.get(candidate.model)?.first.id;
    this.#bindings.bind(this.#session, isFirst ? undefined : place.id);
  }

  failed(candidate: Candidate, credential: string | undefined): void {
    this.#hasFailed ||= this.#placeOf(candidate, credential)?.id === this.#boundId;
  }

  /** The attempt is over: a session whose place failed, and that no other served, is not bound. */
  over(): void {
    if (this.#hasFailed && !this.#isServed) this.#bindings.bind(this.#session, undefined);
  }

  #placesOf({ model }: Candidate): readonly Place[] {
    return this.#models.get(model)?.places ?? [];
  }

  #placeOf(candidate: Candidate, credential: string | undefined): Place | undefined {
    return this.#placesOf(candidate).find(
      (place) => place.candidate === candidate && (credential === undefined || place.credentials.includes(credential)),
    );
  }

  #placesAt(candidate: Candidate): Place[] {
    const { upstream, key } = candidate;
    const domains = Map.groupBy(credentialNamesOf(upstream), (credential) => cacheDomainOf(upstream, credential));
    if (domains.size === 0) return [{ id: idOf(key), candidate, credentials: [] }];
    const ranked = this.#byScore([...domains], ([domain, { length }]) => ({
      name: `${upstream.name} ${domain}`,
      weight: length,
    }));
    return ranked.map(([domain, credentials]) => ({ id: idOf(`${key} ${domain}`), candidate, credentials }));
  }

  #byScore<Choice>(
    choices: readonly Choice[],
    shareOf: (choice: Choice) => { name: string; weight: number },
  ): Choice[] {
    if (choices.length < 2) return [...choices];
    const scored = choices.map((choice) => {
      const { name, weight } = shareOf(choice);
      const drawn = hash("sha256", `${this.#session} ${name}`, "buffer").readUInt32LE();
      return { choice, score: -weight / Math.log((drawn + 0.5) / 2 ** 32) };
    });
    return scored.sort((one, other) => other.score - one.score).map(({ choice }) => choice);
  }
}

/** Short, because every binding has one. */
const idOf = (place: string): string => hash("sha256", place, "base64url").slice(0, 16);
