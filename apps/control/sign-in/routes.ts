/** Mounts better-auth at /api/auth: only the paths below, limited by IP address and by user, and without the tokens of sessions in answers. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Fault } from "../api/faults.ts";
import { callerOf, TokenBuckets } from "../api/rate-limits.ts";
import {
  callersMax,
  signInBodyBytesMax,
  signInEveryMs,
  signInsMax,
  wrongPasswordEveryMs,
  wrongPasswordsMax,
} from "../bounds.ts";
import { type Auth, addressHeader, authPath } from "./auth.ts";
import { checkOrigin, isOwnHost } from "./origins.ts";

export const tooManyPasswords = "Too many wrong passwords for this user; wait, or use a sign-in link.";
export const tooManyAttempts = "Too many attempts from this address; wait a little.";

interface Path {
  method: "GET" | "POST";
  /** Attempts count by IP address. */
  limited?: boolean;
  /** Whose wrong passwords they count as: the user of the address in the body, or of the session. Those that succeed do not count. */
  by?: "email" | "session";
}

const resetPath = "/request-password-reset";

const paths: Record<string, Path> = {
  "/sign-in/email": { method: "POST", limited: true, by: "email" },
  "/sign-in/social": { method: "POST", limited: true },
  "/callback/oidc": { method: "GET", limited: true },
  "/sign-out": { method: "POST" },
  "/get-session": { method: "GET" },
  "/magic-link/verify": { method: "GET", limited: true },
  "/verify-email": { method: "GET", limited: true },
  [resetPath]: { method: "POST", limited: true, by: "email" },
  "/reset-password": { method: "POST", limited: true },
  "/two-factor/enable": { method: "POST", limited: true, by: "session" },
  "/two-factor/disable": { method: "POST", limited: true, by: "session" },
  "/two-factor/verify-totp": { method: "POST", limited: true },
  "/two-factor/verify-backup-code": { method: "POST", limited: true },
  "/two-factor/generate-backup-codes": { method: "POST", limited: true, by: "session" },
};

export interface SignInLimits {
  byAddress: TokenBuckets;
  byUser: TokenBuckets;
}

export const signInLimits = (clock: () => number = Date.now): SignInLimits => ({
  byAddress: new TokenBuckets({ max: signInsMax, everyMs: signInEveryMs, keysMax: callersMax, clock }),
  byUser: new TokenBuckets({ max: wrongPasswordsMax, everyMs: wrongPasswordEveryMs, keysMax: callersMax, clock }),
});

export interface SignInRouteOptions {
  auth: Auth;
  /** CONTROL_URL. */
  url: string;
  limits: SignInLimits;
  /** Whether passwords can be reset by mail now. */
  hasMail(): boolean;
}

export async function addSignInRoutes(
  server: FastifyInstance,
  { auth, url, limits, hasMail }: SignInRouteOptions,
): Promise<void> {
  await server.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser(
      "application/json",
      { parseAs: "string", bodyLimit: signInBodyBytesMax },
      (_request, body, done) => done(null, body),
    );
    for (const [path, { method, limited = false, by }] of Object.entries(paths))
      scope.route({
        method,
        url: authPath + path,
        schema: { hide: true },
        handler: async (request, reply) => {
          if (!isOwnHost(request, url))
            throw new Fault("forbidden", "People cannot sign in under this host name: set CONTROL_URL to it.");
          checkOrigin(request, url);
          if (path === resetPath && !hasMail())
            throw new Fault("invalid", "There is no mail server; ask an operator for a sign-in link.");
          if (limited) limits.byAddress.take(callerOf(request.ip), tooManyAttempts);
          const user = by === "email" ? userOf(request.body) : by === "session" ? sessionOf(request) : undefined;
          if (user !== undefined) limits.byUser.take(user, tooManyPasswords);
          const response = await auth.handler(requestOf(request, url));
          const text = await response.text();
          const isOver = response.ok && path !== resetPath && !text.includes('"twoFactorRedirect"');
          if (user !== undefined && isOver) limits.byUser.giveBack(user);
          return answer(reply, response, text);
        },
      });
  });
}

/** What stands for the session in its cookie. */
const sessionOf = ({ headers: { cookie = "" } }: FastifyRequest): string =>
  /sluice\.session_token=([^;]{1,200})/.exec(cookie)?.[1] ?? "";

/** The user whose password is tried. Throws a Fault for a body that is not JSON. */
function userOf(body: unknown): string {
  try {
    const { email } = JSON.parse(String(body)) as { email?: unknown };
    return String(email).slice(0, 254).toLowerCase();
  } catch {
    throw new Fault("invalid", "The body is not JSON.");
  }
}

/** The same request for better-auth; what a proxy or a caller says of addresses is replaced by ours. */
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

async function answer(reply: FastifyReply, response: Response, text: string): Promise<FastifyReply> {
  reply.code(response.status).header("cache-control", "no-store");
  for (const name of text === "" ? ["location"] : ["location", "content-type"]) {
    const value = response.headers.get(name);
    if (value !== null) reply.header(name, value);
  }
  const cookies = response.headers.getSetCookie();
  if (cookies.length > 0) reply.header("set-cookie", cookies);
  if (response.status === 429) reply.header("retry-after", response.headers.get("x-retry-after") ?? "60");
  return reply.serializer(String).send(text === "" ? text : withoutTokens(text));
}

/** Scripts of pages need no token of a session: it is in a cookie that they cannot read. */
function withoutTokens(text: string): string {
  if (!text.startsWith("{")) return text;
  return JSON.stringify(JSON.parse(text), (name, value) => (name === "token" ? undefined : value));
}
