/** The API on a database of the test's, without Redis and the ledger, and browsers that call it. */

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { pino } from "pino";
import { systemClock } from "#service/clock.ts";
import { listen } from "#service/operations.ts";
import { accountHandlers } from "../../apps/control/accounts/accounts.ts";
import { auditHandlers } from "../../apps/control/accounts/audit-log.ts";
import { tokenHandlers } from "../../apps/control/accounts/operator-tokens.ts";
import { alertHandlers } from "../../apps/control/alerts/handlers.ts";
import { createApi } from "../../apps/control/api/server.ts";
import { identifyBy } from "../../apps/control/api/tokens.ts";
import { controlConfigOf } from "../../apps/control/config.ts";
import type { Database } from "../../apps/control/database/database.ts";
import { usageHandlers } from "../../apps/control/ledger/usage-handlers.ts";
import { settingsHandlers } from "../../apps/control/settings/handlers.ts";
import { Settings } from "../../apps/control/settings/settings.ts";
import { createMail } from "../../apps/control/sign-in/mail.ts";
import { authSecretOf } from "../../apps/control/sign-in/secret.ts";
import { createSignIn } from "../../apps/control/sign-in/sign-in.ts";
import { catalogue } from "./api.ts";

export const operatorToken = "operator-token-of-the-tests-0123456789";
export const goodPassword = "correct horse battery";

export interface Answer<Body = Record<string, unknown>> {
  status: number;
  headers: Headers;
  body: Body;
}

/** A person's browser: keeps cookies, and sends the Origin of the page that it is on. */
export class Browser {
  readonly #cookies = new Map<string, string>();
  readonly base: string;

  constructor(base: string) {
    this.base = base;
  }

  get cookie(): string {
    return [...this.#cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  }

  async call<Body = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string | undefined> = {},
  ): Promise<Answer<Body>> {
    const variables = {
      origin: this.base,
      cookie: this.cookie || undefined,
      "content-type": body === undefined ? undefined : "application/json",
      ...headers,
    };
    const response = await fetch(new URL(path, this.base), {
      method,
      redirect: "manual",
      headers: Object.entries(variables).filter((entry): entry is [string, string] => entry[1] !== undefined),
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    for (const cookie of response.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(cookie) ?? [];
      if (value === "" || /max-age=0/i.test(cookie)) this.#cookies.delete(name);
      else this.#cookies.set(name, value);
    }
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.includes("json") === true;
    return {
      status: response.status,
      headers: response.headers,
      body: (isJson && text !== "" ? JSON.parse(text) : text) as Body,
    };
  }

  /** A call of the API that must succeed. */
  async api<Body = Record<string, unknown>>(method: string, path: string, body?: unknown): Promise<Body> {
    const answer = await this.call<Body>(method, `/api/v1${path}`, body);
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  }

  signIn(email: string, password = goodPassword): Promise<Answer> {
    return this.call("POST", "/api/auth/sign-in/email", { email, password });
  }
}

export interface TestApi extends AsyncDisposable {
  readonly url: string;
  readonly database: Database;
  readonly signIn: Awaited<ReturnType<typeof createSignIn>>;
  browser(): Browser;
  /** Calls the API with a token, by default with that of the configuration. */
  machine<Body = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    token?: string,
  ): Promise<Answer<Body>>;
  /** Creates an account and returns its id. */
  account(): Promise<string>;
  /** A new member with a password, signed in. */
  member(account: string, role: string): Promise<{ browser: Browser; user: string; email: string }>;
}

let count = 0;
export const uniqueName = (name: string): string => `${name}-${process.pid}-${++count}`;

export async function startApi(database: Database, environment: Record<string, string> = {}): Promise<TestApi> {
  const config = controlConfigOf({ OPERATOR_TOKEN: operatorToken, ...environment });
  const log = pino({ level: process.env.TEST_LOGS ? "debug" : "silent" });
  let url = "";
  const secret = await authSecretOf(database, config.authSecret);
  const settings = new Settings({ database, environment, secret, log });
  await settings.start();
  const mail = createMail(settings.current, log);
  const signIn = await createSignIn({
    ...{ clock: systemClock, database, config, secret, mail, log },
    settings: settings.current,
    address: () => url,
  });
  const byToken = identifyBy(database, config.operatorToken, systemClock);
  const server = await createApi({
    clock: systemClock,
    database,
    // Handlers of keys need Redis; keys.test.ts has them.
    handlers: {
      ...accountHandlers({ catalogue: () => catalogue, changed: async () => {} }),
      ...usageHandlers({ currency: () => "USD" }),
      ...signIn.handlers,
      ...settingsHandlers({ settings, mail, webhook: { sendTest: async () => undefined }, oidcTests: signIn.tests }),
      ...tokenHandlers,
      ...auditHandlers,
      ...alertHandlers,
    } as Parameters<typeof createApi>[0]["handlers"],
    identify: async (request) => (await byToken(request)) ?? signIn.identify(request),
    addRoutes: signIn.addRoutes,
    console: undefined,
    trustedProxies: config.trustedProxies,
    callsPerMinute: config.callsPerMinute,
    log,
    version: "test",
  });
  url = await listen(server, "127.0.0.1", 0, "PORT");
  const machine: TestApi["machine"] = (method, path, body, token = operatorToken) =>
    new Browser(url).call(method, `/api/v1${path}`, body, { authorization: `Bearer ${token}`, origin: undefined });
  return {
    url,
    database,
    signIn,
    browser: () => new Browser(url),
    machine,
    async account() {
      const id = uniqueName("account");
      assert.equal((await machine("POST", "/accounts", { id, name: id })).status, 201);
      return id;
    },
    async member(account, role) {
      const email = `${uniqueName(role)}@example.com`;
      // Without an address: with a mail server, nobody else sees the link of an invitation for one.
      const { body } = await machine<{ url: string }>("POST", `/accounts/${account}/invitations`, { role });
      const browser = new Browser(url);
      const { user } = await browser.api<{ user: string }>("POST", "/invitations/accept", {
        token: tokenOf(body.url),
        name: role,
        email,
        password: goodPassword,
      });
      assert.equal((await browser.signIn(email)).status, 200);
      return { browser, user, email };
    },
    async [Symbol.asyncDispose]() {
      await server.close();
      await signIn[Symbol.asyncDispose]();
      settings.close();
    },
  };
}

/** The token of a link. */
export const tokenOf = (url: string): string => new URL(url).hash.replace("#token=", "");

export const randomAddress = (): string => `10.${[...randomBytes(3)].join(".")}`;
