/**
 * Composes sign-in: better-auth, its routes, who a request comes from, and the handlers of
 * operations on people.
 */

import { isDeepStrictEqual } from "node:util";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { sql } from "kysely";
import type { Logger } from "pino";
import type { memberOperations } from "#api/members.ts";
import type { peopleOperations } from "#api/people.ts";
import type { Clock } from "#service/clock.ts";
import { PeriodicTask } from "#service/periodic-task.ts";
import { callerOf } from "#service/token-buckets.ts";
import { invitationHandlers } from "../accounts/invitations.ts";
import { memberHandlers } from "../accounts/members.ts";
import type { Actor } from "../api/actor.ts";
import type { Handlers } from "../api/handlers.ts";
import { takeFrom } from "../api/rate-limits.ts";
import { expireEveryMs, signInsByProviderMax } from "../bounds.ts";
import type { ControlConfig, InstallationValues } from "../config.ts";
import { recordChange } from "../database/change.ts";
import type { Database } from "../database/database.ts";
import type { Role } from "../database/tables.ts";
import { type Auth, addressHeader, createAuth, type SignInEvent } from "./auth.ts";
import { linksOf } from "./links.ts";
import type { Mail } from "./mail.ts";
import { meHandlers } from "./me.ts";
import { type Claims, groupsIn, type OidcOptions, type OidcValues, oidcOptionsOf, subjectOf } from "./oidc.ts";
import { applyMemberships, membershipsOf } from "./oidc-mapping.ts";
import { OidcTests } from "./oidc-tests.ts";
import { ensureOperator, firstSignInLink } from "./operators.ts";
import { checkOrigin } from "./origins.ts";
import { addSignInRoutes, signInLimits, tooManyAttempts } from "./routes.ts";
import { userHandlers } from "./users.ts";

export interface SignInOptions {
  database: Database;
  config: Pick<ControlConfig, "url">;
  /** The settings in force now. */
  settings(): OidcValues & Pick<InstallationValues, "oidcName" | "oidcCreatesAccounts">;
  /** Signs cookies: see `secret.ts`. */
  secret: string;
  mail: Mail;
  /** The address that control listens on, for links without CONTROL_URL. */
  address(): string;
  clock: Clock;
  log: Logger;
}

export interface SignIn extends AsyncDisposable {
  readonly handlers: Handlers<typeof peopleOperations & typeof memberOperations>;
  /**
   * The person of the request's session; undefined without one. Throws a Fault for a change that
   * another origin's page may have sent.
   */
  identify(request: FastifyRequest): Promise<Actor | undefined>;
  addRoutes(server: FastifyInstance): Promise<void>;
  readonly tests: OidcTests;
  /** A link for the first operator, while no operator can sign in otherwise. */
  firstLink(): Promise<string | undefined>;
}

export async function createSignIn({
  database,
  config: { url },
  settings,
  secret,
  mail,
  address,
  clock,
  log,
}: SignInOptions): Promise<SignIn> {
  const now = () => new Date(clock.epoch());
  const base = () => url || address();
  const limits = signInLimits(database);
  const links = linksOf(base, () => auth, database, clock);
  const common = {
    ...{ database, url, secret, log },
    sendPasswordToken: (email: string, token: string) =>
      mail.send(email, "Set a new password", passwordMail(links.password(token))),
    record: (event: SignInEvent) => record(database, now(), event),
  };
  /** The claims of sign-ins that are not over, by their subjects. */
  const claimsBySubject = new Map<string, Claims>();
  const onClaims = (claims: Claims) => {
    const [oldest] = claimsBySubject.keys();
    if (claimsBySubject.size >= signInsByProviderMax && oldest !== undefined) claimsBySubject.delete(oldest);
    claimsBySubject.set(subjectOf(String(claims.iss), String(claims.sub)), claims);
    return true;
  };
  const signedInByProvider = async (user: string) => {
    const oidc = oidcOptionsOf(settings());
    const login = await database
      .selectFrom("logins")
      .select("accountId")
      .where("userId", "=", user)
      .where("providerId", "=", "oidc")
      .executeTakeFirst();
    const claims = claimsBySubject.get(login?.accountId ?? "") ?? {};
    claimsBySubject.delete(login?.accountId ?? "");
    if (oidc === undefined) return;
    const groups = groupsIn(claims, oidc.claims.groups);
    await applyMemberships(database, {
      user,
      memberships: membershipsOf(oidc.mapping, groups ?? []),
      possible: groups === undefined ? oidc.mapping : [],
      createsAccounts: settings().oidcCreatesAccounts === "true",
      now: now(),
    });
  };
  const auth = createAuth({ ...common, oidc: undefined, onClaims, signedInByProvider });
  let present: { oidc: OidcOptions | undefined; auth: Auth } | undefined;
  /** With the provider that is set. It waits for the provider, so all else is without it. */
  function withProvider(): Auth {
    const oidc = oidcOptionsOf(settings());
    if (present === undefined || !isDeepStrictEqual(present.oidc, oidc))
      present = { oidc, auth: createAuth({ ...common, oidc, onClaims, signedInByProvider }) };
    return present.auth;
  }
  const tests = new OidcTests({
    ...{ database, secret, base },
    authOf: (oidc, verified) =>
      createAuth({ ...common, url: base(), oidc, onClaims: verified, isTest: true, signedInByProvider }),
    now: () => clock.epoch(),
  });
  const { password } = await auth.$context;
  const limit = (caller: string) => takeFrom(limits.byAddress, callerOf(caller), tooManyAttempts);
  const identifyBySession = (request: FastifyRequest) => identify(request, auth, database, url);
  await ensureOperator(database, now());
  await addIssuers(database, oidcOptionsOf(settings()));
  const retention = new PeriodicTask({
    everyMs: expireEveryMs,
    run: () => deleteExpired(database, now()),
    log,
    level: "warn",
    failed: "expired sessions could not be deleted",
    works: "expired sessions are deleted again",
  });
  return {
    handlers: {
      ...meHandlers({ auth, passwords: limits.passwords, links, mail, limit }),
      ...userHandlers({
        links,
        oidc: () => (oidcOptionsOf(settings()) === undefined ? null : settings().oidcName),
        hasMail: mail.isAvailable,
      }),
      ...memberHandlers,
      ...invitationHandlers({
        linkOf: links.invitation,
        mail,
        hashPassword: password.hash,
        limit,
      }),
    },
    identify: identifyBySession,
    addRoutes: (server) =>
      addSignInRoutes(server, {
        auth,
        withProvider,
        tests,
        identify: identifyBySession,
        url,
        limits,
        hasMail: mail.isAvailable,
      }),
    tests,
    firstLink: () => firstSignInLink(database, links),
    async [Symbol.asyncDispose]() {
      retention.close();
    },
  };
}

const passwordMail = (link: string): string =>
  `Open this link within an hour to set a new password:\n\n${link}\n\nIf you did not ask for it, ignore this mail.`;

async function identify(
  request: FastifyRequest,
  auth: Auth,
  database: Database,
  url: string,
): Promise<Actor | undefined> {
  const { cookie, host = "" } = request.headers;
  if (cookie === undefined || !cookie.includes("sluice.session_token=")) return undefined;
  const signedIn = await auth.api
    .getSession({
      headers: new Headers({ cookie, host, [addressHeader]: request.ip }),
      query: { disableRefresh: true },
    })
    // Such as a host name that is not allowed.
    .catch(() => null);
  if (signedIn === null) return undefined;
  checkOrigin(request, url);
  const { user, session } = signedIn;
  const rows = await database
    .selectFrom("members")
    .select(["account", "role"])
    .where("user_id", "=", user.id)
    .execute();
  return {
    kind: "person",
    id: user.id,
    name: user.email,
    isOperator: user.isOperator,
    roles: new Map(rows.map(({ account, role }): [string, Role] => [account, role])),
    session: session.id,
  };
}

const record = (database: Database, now: Date, { action, user, address, after }: SignInEvent): Promise<void> =>
  recordChange(
    {
      database,
      actor: { kind: "person", id: user.id, name: user.email, isOperator: false, roles: new Map() },
      address,
      now,
    },
    action,
    { subject: `user ${user.id}`, ...(after && { after }) },
  );

/** Logins from before their subjects had an issuer are those of the provider that is set. */
async function addIssuers(database: Database, oidc: OidcOptions | undefined): Promise<void> {
  if (oidc === undefined) return;
  await database
    .updateTable("logins")
    .set({ accountId: sql`${subjectOf(oidc.issuer, "")} || ${sql.ref("accountId")}` })
    .where("providerId", "=", "oidc")
    .where("accountId", "!~", "^https?://\\S+ ")
    .execute();
}

async function deleteExpired(database: Database, now: Date): Promise<void> {
  await database.deleteFrom("sessions").where("expiresAt", "<", now).execute();
  await database.deleteFrom("verifications").where("expiresAt", "<", now).execute();
}
