/**
 * Mounts better-auth at /api/auth: only the paths below, limited by IP address and by user, and
 * without the tokens of sessions in answers.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { callerOf, TokenBuckets } from "#service/token-buckets.ts";
import type { Actor } from "../api/actor.ts";
import { Fault } from "../api/faults.ts";
import { takeFrom } from "../api/rate-limits.ts";
import {
  callersMax,
  passwordMails,
  signInBodyBytesMax,
  signInEveryMs,
  signInsMax,
  userPasswordMails,
  userWrongPasswords,
  wrongPasswords,
} from "../bounds.ts";
import type { Database } from "../database/database.ts";
import { type Attempts, createAttempts } from "./attempts.ts";
import { type Auth, addressHeader, authPath } from "./auth.ts";
import type { OidcTests } from "./oidc-tests.ts";
import { checkOrigin, isOwnHost } from "./origins.ts";

const tooManyPasswords = "Too many wrong passwords for this user; wait, or use a sign-in link.";
const tooManyMails = "Too many mails for this user; wait, or ask an operator for a sign-in link.";
export const tooManyAttempts = "Too many attempts from this address; wait a little.";

interface Path {
  method: "GET" | "POST";
  /** Failed attempts count by IP address. */
  limited?: boolean;
  /** Attempts count by user: by the address in the body, or by the session. */
  attempts?: { at: "passwords" | "mails"; by: "body" | "session" };
}

/** Where the provider sends browsers back to. */
const callbackPath = "/callback/oidc";

const paths: Record<string, Path> = {
  "/sign-in/email": { method: "POST", limited: true, attempts: { at: "passwords", by: "body" } },
  "/sign-in/social": { method: "POST", limited: true },
  [callbackPath]: { method: "GET", limited: true },
  "/sign-out": { method: "POST" },
  "/get-session": { method: "GET" },
  "/magic-link/verify": { method: "GET", limited: true },
  "/verify-email": { method: "GET", limited: true },
  "/request-password-reset": { method: "POST", limited: true, attempts: { at: "mails", by: "body" } },
  "/reset-password": { method: "POST", limited: true },
  "/two-factor/enable": { method: "POST", limited: true, attempts: { at: "passwords", by: "session" } },
  "/two-factor/disable": { method: "POST", limited: true, attempts: { at: "passwords", by: "session" } },
  "/two-factor/verify-totp": { method: "POST", limited: true },
  "/two-factor/verify-backup-code": { method: "POST", limited: true },
  "/two-factor/generate-backup-codes": { method: "POST", limited: true, attempts: { at: "passwords", by: "session" } },
};

const providerPaths = new Set(["/sign-in/social", callbackPath]);

/** They end what a password has begun. */
const secondFactors = new Set(["/two-factor/verify-totp", "/two-factor/verify-backup-code"]);

export interface SignInLimits {
  byAddress: TokenBuckets;
  passwords: Attempts;
  mails: Attempts;
}

export const signInLimits = (database: Database): SignInLimits => ({
  byAddress: new TokenBuckets({ max: signInsMax, everyMs: signInEveryMs, keysMax: callersMax }),
  passwords: createAttempts({
    perAddress: wrongPasswords,
    perUser: userWrongPasswords,
    database,
    detail: tooManyPasswords,
  }),
  mails: createAttempts({ perAddress: passwordMails, perUser: userPasswordMails, database, detail: tooManyMails }),
});

export interface SignInRouteOptions {
  auth: Auth;
  /** The same with the OpenID Connect provider. */
  withProvider(): Auth;
  tests: OidcTests;
  /** The person of the request's session. */
  identify(request: FastifyRequest): Promise<Actor | undefined>;
  /** CONTROL_URL. */
  url: string;
  limits: SignInLimits;
  /** Whether passwords can be reset by mail now. */
  hasMail(): boolean;
}

export async function addSignInRoutes(
  server: FastifyInstance,
  { auth, withProvider, tests, identify, url, limits, hasMail }: SignInRouteOptions,
): Promise<void> {
  await server.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser(
      "application/json",
      { parseAs: "string", bodyLimit: signInBodyBytesMax },
      (_request, body, done) => done(null, body),
    );
    for (const [path, { method, limited = false, attempts }] of Object.entries(paths))
      scope.route({
        method,
        url: authPath + path,
        schema: { hide: true },
        handler: async (request, reply) => {
          if (!isOwnHost(request, url))
            throw new Fault("forbidden", "People cannot sign in under this host name: set CONTROL_URL to it.");
          checkOrigin(request, url);
          if (attempts?.at === "mails" && !hasMail())
            throw new Fault("invalid", "There is no mail server; ask an operator for a sign-in link.");
          const { ip } = request;
          if (limited) takeFrom(limits.byAddress, callerOf(ip), tooManyAttempts);
          const webRequest = requestOf(request, url);
          if (path === callbackPath) {
            const test = await tests.find(new URL(webRequest.url).searchParams);
            if (test !== undefined) {
              const isOwn = await tests.finish(test, webRequest, await identify(request));
              return reply
                .header("cache-control", "no-store")
                .redirect(isOwn ? `/settings?test=${test}` : "/?error=ACCESS_DENIED");
            }
          }
          const user = attempts && (attempts.by === "body" ? userOf(request.body) : await sessionOf(auth, webRequest));
          if (user !== undefined) await limits[attempts?.at ?? "passwords"].take(user, ip);
          const response = await (providerPaths.has(path) ? withProvider() : auth).handler(webRequest);
          // The library has no answer for a provider that fails after the token.
          if (path === callbackPath && response.status >= 500) return reply.redirect("/?error=unable_to_get_user_info");
          const text = await response.text();
          // A password that a second factor must follow is no success yet, and a mail never is one.
          const succeeded = response.ok && attempts?.at !== "mails" && !text.includes('"twoFactorRedirect"');
          if (limited && succeeded) limits.byAddress.giveBack(callerOf(ip));
          if (succeeded && user !== undefined) limits.passwords.succeeded(user, ip);
          if (succeeded && secondFactors.has(path)) limits.passwords.succeeded(signedInUser(text), ip);
          return answer(reply, response, text, new URL(webRequest.url).origin);
        },
      });
  });
}

/**
 * Stands for the request's session, as better-auth reads it: its cookie can be spelled in many
 * ways.
 */
async function sessionOf(auth: Auth, { headers }: Request): Promise<string | undefined> {
  const session = await auth.api.getSession({ headers, query: { disableRefresh: true } });
  return session === null ? undefined : `session ${session.session.id}`;
}

/** The user that a second factor has signed in. */
const signedInUser = (text: string): string =>
  (JSON.parse(text) as { user: { email: string } }).user.email.toLowerCase();

/** The user whose password is tried. Throws a Fault for a body that is not JSON. */
function userOf(body: unknown): string {
  try {
    const { email } = JSON.parse(String(body)) as { email?: unknown };
    return String(email).slice(0, 254).toLowerCase();
  } catch {
    throw new Fault("invalid", "The body is not JSON.");
  }
}

/**
 * The same request for better-auth; what a proxy or a caller says of addresses is replaced by ours.
 */
function requestOf(request: FastifyRequest, url: string): Request {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers))
    if (typeof value === "string" && !/^(x-forwarded-|forwarded$|content-length$|connection$)/.test(name))
      headers.set(name, value);
  headers.set(addressHeader, request.ip);
  const base = url || `http://${request.headers.host}`;
  return new Request(new URL(request.url, base), {
    method: request.method,
    headers,
    ...(typeof request.body === "string" && { body: request.body }),
  });
}

async function answer(reply: FastifyReply, response: Response, text: string, own: string): Promise<FastifyReply> {
  reply.code(response.status).header("cache-control", "no-store");
  const location = response.headers.get("location");
  if (location !== null) reply.header("location", isRedirect(response) ? ownAddress(location, own) : location);
  const type = response.headers.get("content-type");
  if (text !== "" && type !== null) reply.header("content-type", type);
  const cookies = response.headers.getSetCookie();
  if (cookies.length > 0) reply.header("set-cookie", cookies);
  if (response.status === 429) reply.header("retry-after", response.headers.get("x-retry-after") ?? "60");
  return reply.serializer(String).send(text === "" ? text : withoutTokens(text));
}

const isRedirect = ({ status }: Response) => status >= 300 && status < 400;

/**
 * An address of ours stays; any other becomes the first page. Read as browsers do:
 * https://url.spec.whatwg.org/#concept-basic-url-parser
 */
function ownAddress(location: string, own: string): string {
  const { origin, pathname } = new URL(URL.canParse(location, own) ? location : "/", own);
  return origin === own && !pathname.startsWith("//") ? location : "/";
}

/** Scripts of pages need no token of a session: it is in a cookie that they cannot read. */
function withoutTokens(text: string): string {
  if (!text.startsWith("{")) return text;
  return JSON.stringify(JSON.parse(text), (name, value) => (name === "token" ? undefined : value));
}
