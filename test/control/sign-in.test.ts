/**
 * Sign-in over HTTP: links, passwords, second factors, sessions, origins and limits, on both
 * databases.
 */
import assert from "node:assert/strict";
import { getMigrations } from "better-auth/db/migration";
import { pino } from "pino";
import { createAttempts } from "../../apps/control/sign-in/attempts.ts";
import { authOptionsOf } from "../../apps/control/sign-in/auth.ts";
import { goodPassword, randomAddress, startApi, uniqueName } from "./browsers.ts";
import { onPostgres } from "./databases.ts";
import { codeOf } from "./totp.ts";

onPostgres("the tables are those that better-auth expects", async (database) => {
  const options = authOptionsOf({
    database,
    url: "",
    secret: "s".repeat(32),
    oidc: {
      issuer: "http://127.0.0.1:1",
      clientId: "c",
      clientSecret: undefined,
      claims: { email: "email", name: "name", groups: "groups" },
      groups: [],
      mapping: [],
    },
    onClaims: () => true,
    signedInByProvider: async () => {},
    sendPasswordToken: () => undefined,
    record: async () => {},
    log: pino({ level: "silent" }),
  });
  const { toBeCreated, toBeAdded, schemaProblems } = await getMigrations(options as never);
  assert.deepEqual(
    { tables: toBeCreated.map(({ table }) => table), columns: toBeAdded, schemaProblems },
    { tables: [], columns: [], schemaProblems: [] },
  );
});

onPostgres("a sign-in link signs the first operator in once, who sets a password with it", async (database) => {
  await using api = await startApi(database);
  const { body: link } = await api.machine<{ url: string; user: string; email: string }>("POST", "/sign-in-links", {});
  const browser = api.browser();
  const opened = await browser.call("GET", link.url, undefined, { origin: undefined });
  assert.equal(opened.status, 302);
  assert.equal(opened.headers.get("location"), `${api.url}/`);
  assert.match(opened.headers.getSetCookie().join(), /sluice\.session_token=.*HttpOnly; SameSite=Lax/);
  const me = await browser.api("GET", "/me");
  assert.deepEqual([me.id, me.isOperator, me.kind], [link.user, true, "person"]);

  const again = await api.browser().call("GET", link.url);
  assert.match(again.headers.get("location") ?? "", /error=INVALID_TOKEN/);
  assert.deepEqual(again.headers.getSetCookie(), []);

  const email = `${uniqueName("operator")}@example.com`;
  await browser.api("PATCH", "/me", { email, name: "Ada" });
  await browser.api("POST", "/me/password", { password: goodPassword });
  const other = api.browser();
  const signedIn = await other.signIn(email);
  assert.equal(signedIn.status, 200);
  assert.equal(JSON.stringify(signedIn.body).includes("token"), false);
  assert.equal((await other.api("GET", "/me")).isOperator, true);
  // A link does not cost the user the password.
  await api
    .browser()
    .call("GET", (await api.machine<{ url: string }>("POST", "/sign-in-links", { user: link.user })).body.url);
  assert.equal((await api.browser().signIn(email)).status, 200);
});

onPostgres("nobody can sign up, and only listed paths of better-auth exist", async (database) => {
  await using api = await startApi(database);
  const browser = api.browser();
  for (const path of ["sign-up/email", "list-sessions", "update-user", "change-password", "sign-in/magic-link", "ok"])
    assert.equal((await browser.call("POST", `/api/auth/${path}`, { email: "x@example.com" })).status, 404, path);
  assert.equal((await browser.call("POST", "/api/auth/sign-in/email", { email: 5 })).status, 400);
  assert.equal(
    (await browser.call("POST", "/api/auth/request-password-reset", { email: "x@example.com" })).status,
    400,
  );
  const text = await fetch(`${api.url}/api/auth/sign-in/email`, {
    method: "POST",
    headers: { "content-type": "application/json", origin: api.url },
    body: "{",
  });
  assert.equal(text.status, 400);
  assert.equal(((await text.json()) as { type: string }).type, "urn:sluice:problem:invalid");
});

onPostgres("a page of another origin can neither sign in nor use the session", async (database) => {
  await using api = await startApi(database);
  const { browser, email } = await api.member(await api.account(), "member");
  const otherPort = "http://127.0.0.1:1";
  const signIn = { email, password: goodPassword };
  for (const origin of [otherPort, "https://evil.example", "null"]) {
    assert.equal((await api.browser().call("POST", "/api/auth/sign-in/email", signIn, { origin })).status, 403, origin);
    assert.equal((await browser.call("PATCH", "/api/v1/me", { name: "Eve" }, { origin })).status, 403, origin);
  }
  const patch = (headers: Record<string, string | undefined>) =>
    browser.call("PATCH", "/api/v1/me", { name: "Eve" }, { origin: undefined, ...headers });
  assert.equal((await patch({})).status, 403);
  assert.equal((await patch({ "sec-fetch-site": "same-site" })).status, 403);
  assert.equal((await patch({ "sec-fetch-site": "same-origin" })).status, 200);
  assert.equal((await browser.call("GET", "/api/v1/me", undefined, { origin: otherPort })).status, 200);
  assert.equal((await browser.call("POST", "/api/auth/sign-out", {}, { origin: otherPort })).status, 403);
});

onPostgres("a host name that is not ours has no sign-in", async (database) => {
  await using api = await startApi(database, { CONTROL_URL: "https://console.example" });
  const { body } = await api.machine<{ url: string }>("POST", "/sign-in-links", {});
  assert.ok(body.url.startsWith("https://console.example/api/auth/magic-link/verify?token="));
  const path = body.url.replace("https://console.example", "");
  const browser = api.browser();
  assert.equal((await browser.call("GET", path)).status, 403);
  // A proxy that keeps the host name sends this request. fetch would replace the name.
  const { request } = await import("node:http");
  const cookies = await new Promise<string[]>((resolve, reject) => {
    request(new URL(path, api.url), { headers: { host: "console.example" } }, (response) => {
      response.resume();
      resolve(response.headers["set-cookie"] ?? []);
    })
      .on("error", reject)
      .end();
  });
  assert.match(cookies.join(), /__Secure-sluice\.session_token=.*Secure/);
});

onPostgres("the sixth wrong password from an address waits; the user signs in from another", async (database) => {
  await using api = await startApi(database, { TRUSTED_PROXIES: "127.0.0.1" });
  const { email } = await api.member(await api.account(), "member");
  const [theirs, own] = [randomAddress(), randomAddress()];
  const attempt = (password: string, from = theirs, user = email) =>
    api.browser().call("POST", "/api/auth/sign-in/email", { email: user, password }, { "x-forwarded-for": from });
  for (let times = 0; times < 8; times++) assert.equal((await attempt(goodPassword)).status, 200);
  for (let times = 0; times < 5; times++) assert.equal((await attempt("wrong password")).status, 401);
  const sixth = await attempt("wrong password");
  assert.equal(sixth.status, 429);
  assert.ok(Number(sixth.headers.get("retry-after")) > 50);
  assert.equal((await attempt(goodPassword, theirs, email.toUpperCase())).status, 429);
  assert.equal((await attempt("wrong password", theirs, "nobody@example.com")).status, 401);
  // The right password begins anew.
  for (const password of ["wrong password", "wrong password", goodPassword, ...Array(5).fill("wrong password")])
    assert.equal((await attempt(password, own)).status, password === goodPassword ? 200 : 401);
});

onPostgres("guessing from many addresses waits too, but not where the user has signed in before", async (database) => {
  await using api = await startApi(database, { TRUSTED_PROXIES: "127.0.0.1" });
  const { email } = await api.member(await api.account(), "member");
  const attempt = (password: string, from: string) =>
    api.browser().call("POST", "/api/auth/sign-in/email", { email, password }, { "x-forwarded-for": from });
  const own = randomAddress();
  assert.equal((await attempt(goodPassword, own)).status, 200);
  const passwords = createAttempts({
    perAddress: { max: 5, everyMs: 60_000 },
    perUser: { max: 7, everyMs: 60_000 },
    database,
    detail: "wait",
  });
  for (let times = 0; times < 7; times++) await passwords.take(email, randomAddress());
  await assert.rejects(passwords.take(email, randomAddress()), { kind: "too_many_requests" });
  await passwords.take(email, own);
  await assert.rejects(passwords.take("somebody@example.com", own).then(() => passwords.take(email, "::1")));
});

onPostgres("another spelling of the cookie is the same session", async (database) => {
  await using api = await startApi(database);
  const { browser } = await api.member(await api.account(), "member");
  const [name = "", value = ""] = browser.cookie.split("=");
  const spellings = [
    `${name}=${value}`,
    `${name}=${decodeURIComponent(value)}`,
    `other=1; ${name}=${value}`,
    `${name}="${value}"`,
    `${name}=${value.replace(/[a-z]/, (letter) => `%${letter.charCodeAt(0).toString(16)}`)}`,
    `${name}=x; ${name}=${value}`,
    `${name}=${value}; ${name}=x`,
  ];
  const statuses: number[] = [];
  for (let times = 0; times < 3; times++)
    for (const cookie of spellings) {
      const body = { password: "wrong password" };
      statuses.push((await browser.call("POST", "/api/auth/two-factor/enable", body, { cookie })).status);
    }
  assert.equal(statuses.filter((status) => status === 400).length, 5, statuses.join());
  assert.equal((await browser.call("POST", "/api/auth/two-factor/enable", { password: goodPassword })).status, 429);
});

onPostgres("no link leads to another host, however its address is spelled", async (database) => {
  await using api = await startApi(database, { TRUSTED_PROXIES: "127.0.0.1" });
  const { browser, user } = await api.member(await api.account(), "member");
  const addresses = [
    "https://evil.example",
    "//evil.example",
    "/..//evil.example",
    "/.//evil.example",
    "/a/../..//evil.example",
    "/%2e%2e//evil.example",
    "/%2e//evil.example",
    "/\\evil.example",
    "/..\\/evil.example",
    "/\t/evil.example",
    "/;@evil.example/..//evil.example",
    "javascript:alert(1)",
    "data:text/html,x",
    " //evil.example",
  ];
  const { body } = await api.machine<{ url: string }>("POST", "/sign-in-links", { user });
  const token = new URL(body.url).searchParams.get("token") ?? "";
  const links = [
    "/verify-email?token=x&callbackURL=",
    "/magic-link/verify?token=x&callbackURL=",
    `/magic-link/verify?token=${token}&callbackURL=`,
  ];
  for (const parameter of ["errorCallbackURL", "newUserCallbackURL"])
    links.push(`/magic-link/verify?token=x&callbackURL=%2F&${parameter}=`);
  const open = (path: string) =>
    browser.call("GET", `/api/auth${path}`, undefined, { "x-forwarded-for": randomAddress() });
  let redirects = 0;
  for (const link of links)
    for (const address of addresses) {
      const { headers } = await open(`${link}${encodeURIComponent(address)}`);
      const location = headers.get("location");
      if (location === null) continue;
      redirects++;
      const { origin, pathname } = new URL(location, api.url);
      assert.equal(origin, api.url, `${link}${address}: ${location}`);
      assert.ok(!pathname.startsWith("//"), `${link}${address}: ${location}`);
    }
  assert.ok(redirects > 0);
  const { headers } = await open("/verify-email?token=x&callbackURL=%2Faccounts%3Fa%3D1");
  assert.equal(headers.get("location"), "/accounts?a=1&error=INVALID_TOKEN");
});

onPostgres("one address can't try many users; a forged X-Forwarded-For does not help", async (database) => {
  await using api = await startApi(database);
  const attempt = (number: number) =>
    api
      .browser()
      .call(
        "POST",
        "/api/auth/sign-in/email",
        { email: `user${number}@example.com`, password: "wrong password" },
        { "x-forwarded-for": randomAddress(), "x-sluice-address": randomAddress() },
      );
  const statuses: number[] = [];
  for (let number = 0; number < 30 && statuses.at(-1) !== 429; number++) statuses.push((await attempt(number)).status);
  assert.equal(statuses.at(-1), 429);
  assert.ok(statuses.length > 20);
});

onPostgres("a second factor is asked for, by code or backup code, and guards against guessing", async (database) => {
  await using api = await startApi(database);
  const { browser, email, user } = await api.member(await api.account(), "owner");
  const enabled = await browser.call<{ totpURI: string; backupCodes: string[] }>(
    "POST",
    "/api/auth/two-factor/enable",
    {
      password: goodPassword,
    },
  );
  assert.equal(enabled.status, 200, JSON.stringify(enabled.body));
  const { totpURI, backupCodes } = enabled.body;
  const verify = (who: typeof browser, code: string) => who.call("POST", "/api/auth/two-factor/verify-totp", { code });
  assert.equal((await verify(browser, codeOf(totpURI))).status, 200);
  assert.equal((await browser.api("GET", "/me")).hasSecondFactor, true);

  const next = api.browser();
  assert.equal((await next.signIn(email)).body.twoFactorRedirect, true);
  assert.equal((await next.call("GET", "/api/v1/me")).status, 401);
  const disable = () => browser.call("POST", "/api/auth/two-factor/disable", { password: "wrong password" });
  for (let times = 0; times < 5; times++) assert.equal((await disable()).status, 400);
  assert.equal((await disable()).status, 429);
  const wrong = String((Number(codeOf(totpURI)) + 1) % 1_000_000).padStart(6, "0");
  assert.equal((await verify(next, wrong)).status, 401);
  assert.equal((await verify(next, codeOf(totpURI))).status, 200);
  assert.equal((await next.api("GET", "/me")).email, email);

  // Whoever has both factors may sign in often.
  for (let times = 0; times < 5; times++) {
    const often = api.browser();
    assert.equal((await often.signIn(email)).body.twoFactorRedirect, true);
    assert.equal((await verify(often, codeOf(totpURI))).status, 200);
    await often.call("POST", "/api/auth/sign-out", {});
  }

  const last = api.browser();
  await last.signIn(email);
  const code = backupCodes[0];
  assert.equal((await last.call("POST", "/api/auth/two-factor/verify-backup-code", { code })).status, 200);
  const { items } = await last.api<{ items: { method: string; isCurrent: boolean }[] }>("GET", "/me/sessions");
  assert.deepEqual(
    items.map(({ method }) => method),
    ["second-factor", "second-factor", "second-factor"],
  );
  const { body: log } = await api.machine<{ items: { action: string; after: { method: string } | null }[] }>(
    "GET",
    `/audit?actor=${user}&limit=9`,
  );
  assert.deepEqual(
    log.items.map(({ action, after }) => after?.method ?? action),
    [...Array(7).fill("second-factor"), "enableSecondFactor", "password"],
  );
});

onPostgres("sessions are listed and ended; an ended one is refused at once", async (database) => {
  await using api = await startApi(database);
  const { browser, email } = await api.member(await api.account(), "reader");
  const second = api.browser();
  await second.signIn(email);
  const third = api.browser();
  await third.signIn(email);
  interface Sessions {
    items: { id: string; isCurrent: boolean; address: string; method: string }[];
    nextCursor: string | null;
  }
  const { items } = await second.api<Sessions>("GET", "/me/sessions");
  assert.equal(items.length, 3);
  assert.deepEqual([items[0]?.method, items[0]?.address], ["password", "127.0.0.1"]);
  const page = await second.api<Sessions>("GET", "/me/sessions?limit=2");
  const rest = await second.api<Sessions>("GET", `/me/sessions?limit=2&cursor=${page.nextCursor}`);
  assert.deepEqual([...page.items, ...rest.items], items);

  const [{ items: own }, { items: theirs }] = await Promise.all([
    browser.api<Sessions>("GET", "/me/sessions"),
    third.api<Sessions>("GET", "/me/sessions"),
  ]);
  const current = (sessions: Sessions["items"]) => sessions.find(({ isCurrent }) => isCurrent)?.id;
  await second.api("DELETE", `/me/sessions/${current(own)}`);
  assert.equal((await browser.call("GET", "/api/v1/me")).status, 401);
  assert.equal((await second.call("DELETE", `/api/v1/me/sessions/${current(own)}`)).status, 404);

  const stranger = await api.member(await api.account(), "owner");
  assert.equal((await stranger.browser.call("DELETE", `/api/v1/me/sessions/${current(theirs)}`)).status, 404);
  await second.api("DELETE", "/me/sessions?keepsCurrent=true");
  assert.equal((await third.call("GET", "/api/v1/me")).status, 401);
  assert.equal((await second.call("POST", "/api/auth/sign-out", {})).status, 200);
  assert.equal((await second.call("GET", "/api/v1/me")).status, 401);
});

onPostgres("a password is changed with the current one, which ends other sessions", async (database) => {
  await using api = await startApi(database);
  const { browser, email } = await api.member(await api.account(), "member");
  const other = api.browser();
  await other.signIn(email);
  const set = (body: object) => browser.call("POST", "/api/v1/me/password", body);
  const password = "another long password";
  assert.equal((await set({ password })).body.field, "currentPassword");
  assert.equal((await set({ password, currentPassword: "wrong password" })).status, 400);
  assert.equal((await set({ password: "short", currentPassword: goodPassword })).status, 400);
  assert.equal((await set({ password, currentPassword: goodPassword })).status, 204);
  assert.equal((await other.call("GET", "/api/v1/me")).status, 401);
  assert.equal((await api.browser().signIn(email)).status, 401);
  assert.equal((await api.browser().signIn(email, password)).status, 200);
  const email2 = `${uniqueName("new")}@example.com`;
  assert.equal((await browser.call("PATCH", "/api/v1/me", { email: email2 })).status, 400);
  assert.equal((await browser.api("PATCH", "/me", { email: email2, currentPassword: password })).email, email2);
  assert.equal((await browser.api("PATCH", "/me", {})).email, email2);
  const { id } = await browser.api<{ id: string }>("GET", "/me");
  const changes = database.selectFrom("audit").select("id").where("actor_id", "=", id).where("action", "=", "updateMe");
  assert.equal((await changes.execute()).length, 1);
});

onPostgres("a link that has expired, and a session that has, are refused", async (database) => {
  await using api = await startApi(database);
  const { browser, user } = await api.member(await api.account(), "member");
  const { body } = await api.machine<{ url: string }>("POST", "/sign-in-links", { user });
  const past = new Date(Date.now() - 1_000);
  await database.updateTable("verifications").set({ expiresAt: past }).execute();
  const opened = await api.browser().call("GET", body.url);
  assert.match(opened.headers.get("location") ?? "", /error=/);
  assert.deepEqual(opened.headers.getSetCookie(), []);
  await database.updateTable("sessions").set({ expiresAt: past }).where("userId", "=", user).execute();
  assert.equal((await browser.call("GET", "/api/v1/me")).status, 401);
});

onPostgres("a forged cookie is no session", async (database) => {
  await using api = await startApi(database);
  const { browser } = await api.member(await api.account(), "member");
  const [name, value = ""] = browser.cookie.split("=");
  const forged = `${name}=${value.slice(0, 10)}${value[10] === "a" ? "b" : "a"}${value.slice(11)}`;
  assert.equal((await api.browser().call("GET", "/api/v1/me", undefined, { cookie: forged })).status, 401);
  const token = decodeURIComponent(value).split(".")[0];
  const unsigned = `${name}=${token}`;
  assert.equal((await api.browser().call("GET", "/api/v1/me", undefined, { cookie: unsigned })).status, 401);
});
