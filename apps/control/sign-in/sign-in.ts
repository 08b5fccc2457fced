/**
 * Composes sign-in: better-auth, its routes, who a request comes from, and the handlers of
 * operations on people.
 */

import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import type { memberOperations } from "#api/members.ts";
import type { peopleOperations } from "#api/people.ts";
import type { Clock } from "#service/clock.ts";
import { PeriodicTask } from "#service/periodic-task.ts";
import { StartupFault } from "#service/startup.ts";
import { callerOf } from "#service/token-buckets.ts";
import { invitationHandlers } from "../accounts/invitations.ts";
import { memberHandlers } from "../accounts/members.ts";
import type { Actor } from "../api/actor.ts";
import type { Handlers } from "../api/handlers.ts";
import { takeFrom } from "../api/rate-limits.ts";
import { expireEveryMs } from "../bounds.ts";
import type { ControlConfig } from "../config.ts";
import { recordChange } from "../database/change.ts";
import type { Database } from "../database/database.ts";
import type { Role } from "../database/tables.ts";
import { type Auth, addressHeader, createAuth, type SignInEvent } from "./auth.ts";
import { linksOf } from "./links.ts";
import type { Mail } from "./mail.ts";
import { meHandlers } from "./me.ts";
import { ensureOperator, firstSignInLink } from "./operators.ts";
import { checkOrigin } from "./origins.ts";
import { addSignInRoutes, signInLimits, tooManyAttempts } from "./routes.ts";
import { userHandlers } from "./users.ts";

export interface SignInOptions {
  database: Database;
  config: Pick<
    ControlConfig,
    | "url"
    | "oidcIssuer"
    | "oidcClientId"
    | "oidcClientSecret"
    | "oidcName"
    | "oidcEmailClaim"
    | "oidcNameClaim"
    | "oidcGroupsClaim"
    | "oidcGroups"
  >;
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
  /** A link for the first operator, while no operator can sign in otherwise. */
  firstLink(): Promise<string | undefined>;
}

export async function createSignIn({
  database,
  config,
  secret,
  mail,
  address,
  clock,
  log,
}: SignInOptions): Promise<SignIn> {
  const { url, oidcName } = config;
  const oidc = providerOf(config);
  const now = () => new Date(clock.epoch());
  const base = () => url || address();
  const limits = signInLimits(database);
  const links = linksOf(base, () => auth, database, clock);
  const auth = createAuth({
    database,
    url,
    secret,
    oidc,
    sendPasswordToken: (email, token) => mail.send(email, "Set a new password", passwordMail(links.password(token))),
    record: (event) => record(database, now(), event),
    log,
  });
  const { password } = await auth.$context;
  const limit = (caller: string) => takeFrom(limits.byAddress, callerOf(caller), tooManyAttempts);
  await ensureOperator(database, now());
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
      ...userHandlers({ links, oidc: oidc === undefined ? null : oidcName, hasMail: mail.isAvailable }),
      ...memberHandlers,
      ...invitationHandlers({
        linkOf: links.invitation,
        mail,
        hashPassword: password.hash,
        limit,
      }),
    },
    identify: (request) => identify(request, auth, database, url),
    addRoutes: (server) => addSignInRoutes(server, { auth, url, limits, hasMail: mail.isAvailable }),
    firstLink: () => firstSignInLink(database, links),
    async [Symbol.asyncDispose]() {
      retention.close();
    },
  };
}

const passwordMail = (link: string): string =>
  `Open this link within an hour to set a new password:\n\n${link}\n\nIf you did not ask for it, ignore this mail.`;

/** Throws a StartupFault for an incomplete configuration. */
function providerOf({ oidcIssuer, oidcClientId, oidcClientSecret, ...config }: SignInOptions["config"]) {
  if (oidcIssuer === "") return undefined;
  if (oidcClientId === "") throw new StartupFault("OIDC_ISSUER needs OIDC_CLIENT_ID");
  return {
    issuer: oidcIssuer,
    clientId: oidcClientId,
    clientSecret: oidcClientSecret,
    claims: { email: config.oidcEmailClaim, name: config.oidcNameClaim, groups: config.oidcGroupsClaim },
    groups: config.oidcGroups
      .split(",")
      .map((group) => group.trim())
      .filter((group) => group !== ""),
  };
}

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

async function deleteExpired(database: Database, now: Date): Promise<void> {
  await database.deleteFrom("sessions").where("expiresAt", "<", now).execute();
  await database.deleteFrom("verifications").where("expiresAt", "<", now).execute();
}
