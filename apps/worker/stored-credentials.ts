/**
 * The credentials that operators store by control's API: opens them, and puts their values into the
 * worker's environment under their references. Handles secrets, so it logs names alone.
 */
import type { Logger } from "pino";
import {
  isStoredReference,
  openCredential,
  type PublishedCredentials,
  previousReferenceOf,
  referenceOf,
} from "#catalogue/credentials.ts";

export interface StoredCredentialsDeps {
  /** Gets the values. */
  environment: Record<string, string | undefined>;
  /** The values of CREDENTIALS_SECRET now. */
  secrets(): readonly string[];
  log: Logger;
  /** A credential has another value. */
  onCredential(reference: string): void;
}

export class StoredCredentials {
  readonly #deps: StoredCredentialsDeps;
  #unreadable: readonly string[] = [];

  constructor(deps: StoredCredentialsDeps) {
    this.#deps = deps;
  }

  /** The names of those that CREDENTIALS_SECRET does not open. */
  get unreadable(): readonly string[] {
    return this.#unreadable;
  }

  /** Replaces all values. Returns the credentials with two values in use. */
  readonly apply = (credentials: PublishedCredentials): Record<string, string> => {
    const { environment, secrets, log, onCredential } = this.#deps;
    const values = new Map<string, string>();
    const overlapping: Record<string, string> = {};
    const unreadable: string[] = [];
    for (const [name, { sealed, previous }] of Object.entries(credentials)) {
      const reference = referenceOf(name);
      const value = openCredential(secrets(), name, sealed);
      if (value === undefined) unreadable.push(name);
      else values.set(reference, value);
      const former = previous && openCredential(secrets(), name, previous.sealed);
      if (previous === undefined || former === undefined) continue;
      overlapping[reference] = previousReferenceOf(name, previous.version);
      values.set(overlapping[reference], former);
    }
    const added = unreadable.filter((name) => !this.#unreadable.includes(name));
    if (added.length > 0)
      log.error(
        { credentials: added },
        "CREDENTIALS_SECRET opens no such credential; store it again, or add its secret",
      );
    this.#unreadable = unreadable;
    for (const name of Object.keys(environment))
      if (isStoredReference(name) && !values.has(name)) delete environment[name];
    for (const [reference, value] of values) {
      if (environment[reference] === value) continue;
      environment[reference] = value;
      onCredential(reference);
    }
    return overlapping;
  };
}
