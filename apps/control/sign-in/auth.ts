/**
 * better-auth as control uses it: e-mail and password, a second factor, one OpenID Connect
 * provider, and links that sign in once. It keeps its rows in our tables (migration 0003) and is
 * reached only through `routes.ts`, which limits and filters. Nobody can sign up, and logins are
 * never joined by their address.
 */
import { randomBytes } from "node:crypto";
import { type BetterAuthOptions, type BetterAuthPlugin, betterAuth } from "better-auth";
import { createAuthMiddleware, getSessionFromCtx, isAPIError } from "better-auth/api";
import { magicLink, twoFactor } from "better-auth/plugins";
import type { Logger } from "pino";
import { passwordLengths } from "#api/people.ts";
import { freshSessionMs, sessionMs, sessionsMax, signInLinkMs } from "../bounds.ts";
import type { Database } from "../database/database.ts";

/** Carries the caller's IP address to better-auth. Callers cannot set it. */
export const addressHeader = "x-sluice-address";
export const authPath = "/api/auth";

import { type OidcOptions, type OnClaims, oidcPlugin } from "./oidc.ts";

export interface AuthOptions {
  database: Database;
  /** CONTROL_URL; empty without one. */
  url: string;
  secret: string;
  oidc: OidcOptions | undefined;
  onClaims: OnClaims;
  /** Only for a test of the provider, in which nobody signs in. */
  isTest?: boolean;
  /** A session by the provider has begun. */
  signedInByProvider(user: string): Promise<void>;
  /** Sends the token that sets a new password. */
  sendPasswordToken(email: string, token: string): void;
  /** For the audit log. */
  record(event: SignInEvent): Promise<void>;
  log: Logger;
}

export interface SignInEvent {
  action: string;
  user: { id: string; email: string };
  address: string;
  /** How a session began, or the new address. */
  after?: { method: string } | { email: string };
}

/** How `links.ts` receives the token of a link. */
export interface LinkRequest {
  created(token: string): void;
}

export type Auth = ReturnType<typeof createAuth>;

/** How a session began, by the path of better-auth that created it. */
const methods: Record<string, string> = {
  "/sign-in/email": "password",
  "/two-factor/verify-totp": "second-factor",
  "/two-factor/verify-backup-code": "second-factor",
  "/magic-link/verify": "link",
  "/callback/:id": "oidc",
};

/** Changes for the audit log, by path. */
const changes: Record<string, string> = {
  "/two-factor/disable": "disableSecondFactor",
  "/two-factor/generate-backup-codes": "createBackupCodes",
};

export function authOptionsOf(options: AuthOptions) {
  const { database, url, secret, oidc, onClaims, isTest = false, sendPasswordToken, record, log } = options;
  return {
    appName: "Sluice",
    database: { db: database, type: "postgres" },
    secret,
    basePath: authPath,
    // Without CONTROL_URL: the name that the browser uses. `routes.ts` refuses other hosts.
    baseURL: url || { allowedHosts: ["localhost:*", "127.0.0.1:*", "localhost", "127.0.0.1"], protocol: "http" },
    telemetry: { enabled: false },
    logger: { disableColors: true, level: "warn", log: logTo(log) },
    // `routes.ts` limits by IP address and by user.
    rateLimit: { enabled: false },
    advanced: {
      cookiePrefix: "sluice",
      useSecureCookies: url.startsWith("https:"),
      ipAddress: { ipAddressHeaders: [addressHeader] },
      database: { generateId: ({ model }) => `${model.replace(/s$/, "")}_${randomBytes(12).toString("hex")}` },
    },
    onAPIError: { errorURL: "/" },
    user: {
      modelName: "users",
      additionalFields: { isOperator: { type: "boolean", required: true, defaultValue: false, input: false } },
    },
    session: {
      modelName: "sessions",
      expiresIn: sessionMs / 1_000,
      freshAge: freshSessionMs / 1_000,
      additionalFields: { method: { type: "string", required: false, input: false } },
    },
    account: {
      modelName: "logins",
      accountLinking: { enabled: false },
      encryptOAuthTokens: true,
      skipStateCookieCheck: isTest,
    },
    verification: { modelName: "verifications", storeIdentifier: "hashed" },
    emailAndPassword: {
      enabled: true,
      disableSignUp: true,
      minPasswordLength: passwordLengths.minLength,
      maxPasswordLength: passwordLengths.maxLength,
      revokeSessionsOnPasswordReset: true,
      onPasswordReset: ({ user }, request) =>
        record({ action: "resetPassword", user, address: request?.headers.get(addressHeader) ?? "" }),
      sendResetPassword: async ({ user, token }) => sendPasswordToken(user.email, token),
    },
    databaseHooks: {
      user: {
        update: {
          before: async (user, context) => {
            if (context?.path !== confirmPath) return;
            if (await isTaken(database, user.email)) throw context.redirect("/?error=ADDRESS_TAKEN");
            return { data: { ...user, emailVerified: true } };
          },
          after: async (user, context) => {
            if (context?.path === confirmPath)
              await record({
                action: "changeEmail",
                user,
                address: context.headers?.get(addressHeader) ?? "",
                after: { email: user.email },
              });
          },
        },
      },
      session: {
        create: {
          before: async (session, context) => ({
            data: { method: methods[context?.path ?? ""] ?? (session as { method?: string }).method ?? null },
          }),
          after: ({ userId }) => endOldSessions(database, userId),
        },
      },
    },
    plugins: [
      twoFactor({ issuer: "Sluice", schema: { twoFactor: { modelName: "second_factors" } } }),
      magicLink({
        disableSignUp: true,
        storeToken: "hashed",
        expiresIn: signInLinkMs / 1_000,
        sendMagicLink: ({ token, metadata }) => (metadata as Partial<LinkRequest> as LinkRequest).created(token),
      }),
      ...(oidc === undefined ? [] : [oidcPlugin(oidc, { onClaims, isTest })]),
      confirmPlugin(),
      auditPlugin(options),
    ],
  } satisfies BetterAuthOptions;
}

export const createAuth = (options: AuthOptions) => betterAuth(authOptionsOf(options));

/** better-auth's path that confirms a new address. */
const confirmPath = "/verify-email";

/**
 * Only the user's own session confirms: neither a scanner of mails, nor somebody who has lost the
 * session since.
 */
const confirmPlugin = (): BetterAuthPlugin => ({
  id: "sluice-confirm",
  hooks: {
    before: [
      {
        matcher: ({ path }) => path === confirmPath,
        handler: createAuthMiddleware(async (context) => {
          if ((await getSessionFromCtx(context)) === null) throw context.redirect("/?error=SIGN_IN_FIRST");
        }),
      },
    ],
  },
});

/**
 * Comes after the plugin of the second factor: a session that still waits for one is no sign-in.
 */
const auditPlugin = ({
  database,
  record,
  signedInByProvider,
}: Pick<AuthOptions, "database" | "record" | "signedInByProvider">): BetterAuthPlugin => ({
  id: "sluice-audit",
  hooks: {
    after: [
      {
        matcher: ({ path = "" }) => Object.hasOwn(methods, path) || Object.hasOwn(changes, path),
        handler: createAuthMiddleware(async ({ path = "", context, headers }) => {
          const { newSession, session, returned } = context;
          const address = headers?.get(addressHeader) ?? "";
          const change = changes[path];
          if (change !== undefined && session && !isAPIError(returned))
            await record({ action: change, user: session.user, address });
          const method = methods[path];
          if (method === undefined || !newSession) return;
          if (method === "oidc")
            await signedInByProvider(newSession.user.id).catch(async (error: unknown) => {
              await database.deleteFrom("sessions").where("id", "=", newSession.session.id).execute();
              throw error;
            });
          // The first code of a new second factor replaces the session.
          const event = session ? { action: "enableSecondFactor" } : { action: "signIn", after: { method } };
          await record({ ...event, user: newSession.user, address });
        }),
      },
    ],
  },
});

/** Somebody else may have got the address since the link was sent. */
const isTaken = async (database: Database, email = ""): Promise<boolean> =>
  (await database.selectFrom("users").select("id").where("email", "=", email).executeTakeFirst()) !== undefined;

/** Keeps the newest sessions of a user. */
async function endOldSessions(database: Database, user: string): Promise<void> {
  await database
    .deleteFrom("sessions")
    .where("id", "in", (sessions) =>
      sessions
        .selectFrom("sessions")
        .select("id")
        .where("userId", "=", user)
        .orderBy("createdAt", "desc")
        .orderBy("id")
        .offset(sessionsMax),
    )
    .execute();
}

/** Messages only: their details may contain what callers have sent. */
const logTo = (log: Logger) => (level: string, message: string) => {
  const detail = message.slice(0, 200);
  if (level === "error") log.warn({ detail }, "sign-in");
  else log.debug({ detail }, "sign-in");
};
