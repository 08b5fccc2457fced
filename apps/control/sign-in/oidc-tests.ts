/**
 * Test sign-ins with settings that are not saved: the same library verifies the same answers, but
 * nobody is signed in. A test belongs to the operator who started it, and is kept for some minutes.
 */
import { createHash, randomBytes } from "node:crypto";
import type { AnswerOf } from "#api/operation.ts";
import type { settingsOperations } from "#api/settings.ts";
import { seal, unseal } from "#service/sealing.ts";
import type { Actor } from "../api/actor.ts";
import { Fault, notFound } from "../api/faults.ts";
import { oidcTestMs } from "../bounds.ts";
import type { Database } from "../database/database.ts";
import type { Auth } from "./auth.ts";
import { type Claims, groupsIn, type OidcOptions, type OidcValues, oidcOptionsOf, personOf } from "./oidc.ts";
import { membershipsOf } from "./oidc-mapping.ts";

type Result = AnswerOf<(typeof settingsOperations)["readOidcTest"]>;
interface Test {
  values: OidcValues;
  actor: string;
  result?: { claims: Claims | undefined; problem: string | null };
}

export interface OidcTestOptions {
  database: Database;
  secret: string;
  /** The address of control for browsers. */
  base(): string;
  /** Signs nobody in, and passes the claims of verified tokens on. */
  authOf(oidc: OidcOptions, verified: (claims: Claims) => boolean): Auth;
  now(): number;
}

export class OidcTests {
  readonly #options: OidcTestOptions;

  constructor(options: OidcTestOptions) {
    this.#options = options;
  }

  /** Resolves to the provider's address for the operator's browser. Throws a Fault. */
  async start(values: OidcValues, actor: Actor): Promise<{ test: string; url: string }> {
    if (actor.kind !== "person")
      throw new Fault("forbidden", "Only a person can test a sign-in: it happens in the browser.");
    const oidc = oidcOptionsOf(values);
    if (oidc === undefined)
      throw new Fault("invalid", "A test needs an issuer and a client id.", { field: "oidcIssuer" });
    const auth = this.#options.authOf(oidc, () => false);
    const { url } = await auth.api
      .signInSocial({ body: { provider: "oidc", callbackURL: "/settings", disableRedirect: true } })
      .catch(() => ({ url: undefined }));
    const state = url === undefined ? null : new URL(url).searchParams.get("state");
    if (url === undefined || state === null)
      throw new Fault(
        "conflict",
        `No provider answers at ${oidc.issuer}: its document /.well-known/openid-configuration cannot be read, or lacks endpoints or keys.`,
        { field: "oidcIssuer" },
      );
    const test = testOf(state);
    await this.#write(test, { values, actor: actor.id });
    return { test, url };
  }

  /** The test whose answer of the provider this is; undefined if it is a sign-in. */
  async find(query: URLSearchParams): Promise<string | undefined> {
    const state = query.get("state");
    if (state === null) return undefined;
    const test = testOf(state);
    return (await this.#read(test)) && test;
  }

  /** Takes the provider's answer. Resolves to false for another than the operator of the test. */
  async finish(test: string, request: Request, actor: Actor | undefined): Promise<boolean> {
    const stored = await this.#read(test);
    const oidc = stored && oidcOptionsOf(stored.values);
    if (stored === undefined || oidc === undefined || actor?.id !== stored.actor || !actor.isOperator) return false;
    let claims: Claims | undefined;
    const auth = this.#options.authOf(oidc, (verified) => {
      claims = verified;
      return false;
    });
    const response = await auth.handler(request);
    const location = response.headers.get("location") ?? "";
    const error = URL.canParse(location, this.#options.base())
      ? new URL(location, this.#options.base()).searchParams.get("error")
      : null;
    await this.#write(test, {
      ...stored,
      result: { claims, problem: claims === undefined ? (error ?? "unknown").slice(0, 100) : null },
    });
    return true;
  }

  /** Throws a Fault for a test of somebody else. */
  async result(test: string, actor: Actor): Promise<Result> {
    const stored = await this.#read(test);
    const oidc = stored && oidcOptionsOf(stored.values);
    if (stored === undefined || oidc === undefined || stored.actor !== actor.id) throw notFound("test", test);
    const { claims = {}, problem = null } = stored.result ?? {};
    const person = personOf(claims, oidc);
    const groups = groupsIn(claims, oidc.claims.groups);
    const memberships = [...membershipsOf(oidc.mapping, groups ?? [])];
    const accounts = await this.#options.database
      .selectFrom("accounts")
      .select("id")
      .where("id", "in", ["", ...memberships.map(([account]) => account)])
      .execute();
    return {
      isOver: stored.result !== undefined,
      problem,
      claims: JSON.stringify(claims, null, 2),
      isAllowed: person !== null,
      email: person?.email ?? null,
      groups: groups ?? null,
      memberships: memberships.map(([account, role]) => ({
        account,
        role,
        exists: accounts.some(({ id }) => id === account),
      })),
    };
  }

  #keyOf = (test: string) => ({ secret: this.#options.secret, salt: test, purpose: "test of a provider" });

  async #read(test: string): Promise<Test | undefined> {
    const { database, now } = this.#options;
    const row = await database
      .selectFrom("verifications")
      .select("value")
      .where("identifier", "=", test)
      .where("expiresAt", ">", new Date(now()))
      .executeTakeFirst();
    const text = row && unseal(this.#keyOf(test), row.value);
    return text === undefined ? undefined : (JSON.parse(text) as Test);
  }

  async #write(test: string, value: Test): Promise<void> {
    const { database, now } = this.#options;
    await database.deleteFrom("verifications").where("identifier", "=", test).execute();
    await database
      .insertInto("verifications")
      .values({
        id: `verification_${randomBytes(12).toString("hex")}`,
        identifier: test,
        value: seal(this.#keyOf(test), JSON.stringify(value)),
        expiresAt: new Date(now() + oidcTestMs),
      })
      .execute();
  }
}

const testOf = (state: string): string => `oidc-test-${createHash("sha256").update(state).digest("hex").slice(0, 32)}`;
