/** Sign-in by an OpenID Connect provider, links by mail, and the first start. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { getGlobalDispatcher, setGlobalDispatcher } from "undici";
import { boundFetch } from "#service/public-agent.ts";
import { startScriptedUpstream } from "../support/upstream.ts";
import { goodPassword, operatorToken, startApi, type TestApi, tokenOf, uniqueName } from "./browsers.ts";
import { onPostgres, openPostgres } from "./databases.ts";
import { startIdentityProvider } from "./identity-provider.ts";
import { startMailServer } from "./mail-server.ts";

/** Goes to the provider and back. Resolves to where the browser ends. */
async function signInByProvider(browser: ReturnType<TestApi["browser"]>): Promise<string> {
  const started = await browser.call<{ url: string }>("POST", "/api/auth/sign-in/social", {
    provider: "oidc",
    callbackURL: "/",
  });
  assert.equal(started.status, 200, JSON.stringify(started.body));
  const back = await fetch(started.body.url, { redirect: "manual" });
  const ended = await browser.call("GET", back.headers.get("location") ?? "");
  assert.equal(ended.status, 302);
  return ended.headers.get("location") ?? "";
}

onPostgres("whoever the provider lets in is a user without accounts until invited", async (database) => {
  const email = `${uniqueName("ada")}@example.com`;
  await using provider = await startIdentityProvider({ sub: email, email, name: "Ada" });
  await using api = await startApi(database, { OIDC_ISSUER: provider.issuer, OIDC_CLIENT_ID: "sluice" });
  assert.equal((await api.browser().api("GET", "/sign-in-methods")).oidc, "Single sign-on");
  const account = await api.account();
  const browser = api.browser();
  assert.equal(await signInByProvider(browser), "/");
  const me = await browser.api<{ email: string; accounts: object[]; isOperator: boolean; hasPassword: boolean }>(
    "GET",
    "/me",
  );
  assert.deepEqual([me.email, me.accounts, me.isOperator, me.hasPassword], [email, [], false, false]);
  assert.equal((await browser.call("GET", `/api/v1/accounts/${account}`)).status, 404);
  const { body } = await api.machine<{ url: string }>("POST", `/accounts/${account}/invitations`, { role: "reader" });
  await browser.api("POST", "/invitations/accept", { token: tokenOf(body.url) });
  await browser.api("GET", `/accounts/${account}`);
  const sessions = await browser.api<{ items: { method: string }[] }>("GET", "/me/sessions");
  assert.deepEqual(
    sessions.items.map(({ method }) => method),
    ["oidc"],
  );
  // The same person again is the same user.
  const again = api.browser();
  await signInByProvider(again);
  assert.equal((await again.api("GET", "/me")).id, (await browser.api("GET", "/me")).id);
});

onPostgres(
  "a provider's account never takes over a user with the same address, and a forged token is refused",
  async (database) => {
    await using provider = await startIdentityProvider({ sub: uniqueName("eve"), email: "", name: "Eve" });
    await using api = await startApi(database, { OIDC_ISSUER: provider.issuer, OIDC_CLIENT_ID: "sluice" });
    const { email } = await api.member(await api.account(), "owner");
    provider.person.email = email;
    const browser = api.browser();
    assert.equal(await signInByProvider(browser), "/?error=account_not_linked");
    assert.equal((await browser.call("GET", "/api/v1/me")).status, 401);
    provider.person = { sub: uniqueName("mallory"), email: `${uniqueName("mallory")}@example.com`, name: "Mallory" };
    provider.forges = true;
    assert.equal(await signInByProvider(browser), "/?error=unable_to_get_user_info");
    assert.equal((await browser.call("GET", "/api/v1/me")).status, 401);
  },
);

onPostgres("answers of a provider without an end let nobody in, and are not read to it", async (database) => {
  const dispatcher = getGlobalDispatcher();
  const person = { sub: uniqueName("ada"), email: `${uniqueName("ada")}@example.com`, name: "Ada" };
  try {
    for (const endless of ["/.well-known/openid-configuration", "/keys", "/token", "/userinfo"]) {
      await using provider = await startIdentityProvider(person);
      const settings = { OIDC_ISSUER: provider.issuer, OIDC_CLIENT_ID: "sluice" };
      await using api = await startApi(database, settings);
      boundFetch({ timeout: 10_000, bytesMax: 1 << 20 });
      provider.endless = endless;
      if (endless === "/userinfo") provider.lies = { email: undefined };
      const browser = api.browser();
      const started = await browser.call<{ url?: string }>("POST", "/api/auth/sign-in/social", {
        ...{ provider: "oidc", callbackURL: "/" },
      });
      if (started.body.url !== undefined) {
        const back = await fetch(started.body.url, { redirect: "manual" });
        const ended = await browser.call("GET", back.headers.get("location") ?? "");
        assert.match(ended.headers.get("location") ?? "", /error=/, endless);
      } else assert.equal(endless, "/.well-known/openid-configuration");
      assert.equal((await browser.call("GET", "/api/v1/me")).status, 401, endless);
    }
  } finally {
    setGlobalDispatcher(dispatcher);
  }
});

onPostgres("settings name the claims with a person's address, name and groups", async (database) => {
  const address = `${uniqueName("ada")}@example.com`;
  const entra = { sub: uniqueName("ada"), preferred_username: address, display: "Ada L.", roles: ["staff", "ops"] };
  await using provider = await startIdentityProvider(entra);
  await using api = await startApi(database, {
    OIDC_ISSUER: provider.issuer,
    OIDC_CLIENT_ID: "sluice",
    OIDC_EMAIL_CLAIM: "preferred_username",
    OIDC_NAME_CLAIM: "display",
    OIDC_GROUPS_CLAIM: "roles",
    OIDC_GROUPS: "admins, ops",
  });
  const browser = api.browser();
  assert.equal(await signInByProvider(browser), "/");
  const me = await browser.api<{ email: string; name: string }>("GET", "/me");
  assert.deepEqual([me.email, me.name], [address, "Ada L."]);
  const refused: object[] = [
    { roles: ["staff"] },
    { roles: undefined },
    { preferred_username: undefined },
    { preferred_username: "ada" },
  ];
  for (const claims of refused) {
    provider.person = { ...entra, sub: uniqueName("eve"), ...claims };
    const other = api.browser();
    assert.equal(await signInByProvider(other), "/?error=unable_to_get_user_info");
    assert.equal((await other.call("GET", "/api/v1/me")).status, 401);
  }
  provider.person = {
    ...entra,
    sub: uniqueName("bob"),
    preferred_username: `${uniqueName("bob")}@example.com`,
    roles: "ops",
  };
  assert.equal(await signInByProvider(api.browser()), "/");
  provider.forges = true;
  assert.equal(await signInByProvider(api.browser()), "/?error=unable_to_get_user_info");
});

/** An operator who is signed in. */
async function operatorOf(api: TestApi) {
  const { browser, user } = await api.member(await api.account(), "owner");
  assert.equal((await api.machine("PATCH", `/users/${user}`, { isOperator: true })).status, 200);
  return browser;
}

onPostgres(
  "groups of a provider give roles at each sign-in, and never more than the mapping says",
  async (database) => {
    await using provider = await startIdentityProvider({
      sub: uniqueName("ada"),
      email: `${uniqueName("ada")}@example.com`,
    });
    const [acme, made] = [uniqueName("acme"), uniqueName("made")];
    await using api = await startApi(database, { OIDC_CLIENT_ID: "sluice" });
    assert.equal((await api.machine("POST", "/accounts", { id: acme, name: acme })).status, 201);
    const set = (body: object) => api.machine("PATCH", "/settings", body);
    const settings = {
      oidcIssuer: provider.issuer,
      oidcMapping: `eng=${acme}:member, ops=${acme}:owner,eng=${made}:reader`,
    };
    assert.equal((await api.browser().api("GET", "/sign-in-methods")).oidc, null);
    assert.equal((await set(settings)).status, 200);
    assert.equal((await api.browser().api("GET", "/sign-in-methods")).oidc, "Single sign-on");
    const rolesNow = async (claims: object) => {
      provider.person = { sub: provider.person.sub, email: String(provider.person.email), ...claims };
      const browser = api.browser();
      assert.equal(await signInByProvider(browser), "/");
      const me = await browser.api<{ accounts: { id: string; role: string }[]; isOperator: boolean; id: string }>(
        "GET",
        "/me",
      );
      assert.equal(me.isOperator, false);
      return { id: me.id, roles: me.accounts.map(({ id: account, role }) => `${account} ${role}`).sort() };
    };
    const { id, roles } = await rolesNow({ groups: ["eng", "other"], isOperator: true, role: "operator" });
    assert.deepEqual(roles, [`${acme} member`]);
    assert.deepEqual((await rolesNow({ groups: "ops" })).roles, [`${acme} owner`]);
    // Nobody else is an owner, so the account keeps this one.
    assert.deepEqual((await rolesNow({ groups: [] })).roles, [`${acme} owner`]);
    const other = await api.member(acme, "owner");
    assert.deepEqual((await rolesNow({})).roles, [`${acme} owner`], "an absent claim takes nothing away");
    assert.equal((await set({ oidcCreatesAccounts: "true" })).status, 200);
    assert.deepEqual((await rolesNow({ groups: ["eng"] })).roles, [`${acme} member`, `${made} reader`]);
    // A role that somebody gives by hand stays.
    await other.browser.api("PATCH", `/accounts/${acme}/members/${id}`, { role: "reader" });
    assert.deepEqual((await rolesNow({ groups: ["ops"] })).roles, [`${acme} reader`]);
    const { items } = (
      await api.machine<{ items: { subject: string; after: object; before: object }[] }>(
        "GET",
        "/audit?action=mapMembership",
      )
    ).body;
    const changes = items.map(({ before, after }) => `${JSON.stringify(before)} ${JSON.stringify(after)}`).sort();
    const [owner, member, reader] = ["owner", "member", "reader"].map((role) => JSON.stringify({ role }));
    assert.deepEqual(
      changes,
      [`null ${member}`, `${member} ${owner}`, `${owner} ${member}`, `null ${reader}`, `${reader} null`].sort(),
    );
  },
);

onPostgres("a provider that lies lets nobody in, in a sign-in and in a test", async (database) => {
  const person = { sub: uniqueName("eve"), email: `${uniqueName("eve")}@example.com`, name: "Eve", groups: ["eng"] };
  await using provider = await startIdentityProvider(person);
  await using api = await startApi(database, {
    OIDC_CLIENT_ID: "sluice",
    OIDC_ISSUER: provider.issuer,
    OIDC_MAPPING: "eng=default:owner",
  });
  const operator = await operatorOf(api);
  const tested = async () => {
    const { url, test } = await operator.api<{ url: string; test: string }>("POST", "/settings/oidc-tests", {});
    const back = await fetch(url, { redirect: "manual" });
    const ended = await operator.call("GET", back.headers.get("location") ?? "");
    assert.equal(ended.headers.get("location"), `/settings?test=${test}`);
    return operator.api<{ problem: string | null; isAllowed: boolean; claims: string }>(
      "GET",
      `/settings/oidc-tests?test=${test}`,
    );
  };
  const right = { named: provider.named, forges: false, algorithm: "RS256", lies: {} } as const;
  const lies: [name: string, lie: object][] = [
    ["a foreign key", { forges: true }],
    ["no signature", { algorithm: "none" }],
    ["the public key as a secret", { algorithm: "HS256" }],
    ["another audience", { lies: { aud: "other" } }],
    ["another issuer in the token", { lies: { iss: "https://other.example" } }],
    ["another issuer in the document and the token", { named: "https://other.example" }],
    ["another nonce", { lies: { nonce: "x" } }],
    ["no nonce", { lies: { nonce: undefined } }],
    ["an old token", { lies: { exp: 1 } }],
  ];
  for (const [name, lie] of lies) {
    Object.assign(provider, right, lie);
    const browser = api.browser();
    assert.match(await signInByProvider(browser), /^\/\?error=/, name);
    assert.equal((await browser.call("GET", "/api/v1/me")).status, 401, name);
    assert.equal((await tested()).isAllowed, false, name);
  }
  Object.assign(provider, right);
  const { claims, ...result } = await tested();
  assert.deepEqual(result, {
    ...{ isOver: true, problem: null, isAllowed: true, email: person.email, groups: ["eng"] },
    memberships: [{ account: "default", role: "owner", exists: true }],
  });
  assert.equal((JSON.parse(claims) as { sub: string }).sub, person.sub);
  const users = await database.selectFrom("users").select("email").where("email", "=", person.email).execute();
  assert.deepEqual(users, [], "a test signs nobody in");
});

onPostgres("a test belongs to its operator, and the provider's secret is in no answer", async (database) => {
  const clientSecret = "provider-secret-0123456789";
  await using provider = await startIdentityProvider({
    sub: uniqueName("ada"),
    email: `${uniqueName("ada")}@example.com`,
  });
  await using api = await startApi(database);
  const operator = await operatorOf(api);
  const other = await operatorOf(api);
  const seen: string[] = [];
  const call = async (browser: typeof operator, method: string, path: string, body?: object) => {
    const answer = await browser.call<Record<string, string>>(method, path, body);
    seen.push(JSON.stringify([answer.body, [...answer.headers]]));
    return answer;
  };
  const body = { oidcIssuer: provider.issuer, oidcClientId: "sluice", oidcClientSecret: clientSecret };
  const { body: started } = await call(operator, "POST", "/api/v1/settings/oidc-tests", body);
  const { test = "", url = "" } = started;
  assert.equal(new URL(url).origin, provider.issuer);
  assert.equal(new URL(url).searchParams.get("redirect_uri"), `${api.url}/api/auth/callback/oidc`);
  assert.ok(!url.includes(clientSecret));
  const back = (await fetch(url, { redirect: "manual" })).headers.get("location") ?? "";
  for (const browser of [other, api.browser()])
    assert.equal((await call(browser, "GET", back)).headers.get("location"), "/?error=ACCESS_DENIED");
  assert.equal((await call(other, "GET", `/api/v1/settings/oidc-tests?test=${test}`)).status, 404);
  assert.equal((await call(operator, "GET", back)).headers.get("location"), `/settings?test=${test}`);
  assert.equal((await call(operator, "GET", `/api/v1/settings/oidc-tests?test=${test}`)).body.isAllowed, true);
  assert.equal((await api.machine("POST", "/settings/oidc-tests", body)).status, 403, "a machine has no browser");
  const { body: token } = await api.machine<{ token: string }>("POST", "/tokens", {
    name: "n",
    scopes: ["updateSettings"],
  });
  assert.equal((await api.machine("PATCH", "/settings", { oidcMapping: "" }, token.token)).status, 403);
  const nowhere = { ...body, oidcIssuer: "http://127.0.0.1:9" };
  assert.equal((await call(operator, "POST", "/api/v1/settings/oidc-tests", nowhere)).status, 409);
  for (const wrong of [
    { oidcIssuer: "http://169.254.169.254" },
    { oidcIssuer: "ftp://host" },
    { oidcIssuer: "https://user:password@host" },
    { oidcIssuer: "https://host/?a=b" },
    { gatewayUrl: "https://user:password@host" },
    { oidcMapping: "eng=..:owner" },
    { oidcMapping: "eng=acme:operator" },
    { oidcMapping: "eng=acme" },
    { oidcClientSecret: "with space" },
  ])
    assert.equal((await call(operator, "PATCH", "/api/v1/settings", wrong)).status, 400, JSON.stringify(wrong));
  for (const id of [".", ".."])
    assert.equal((await api.machine("POST", "/accounts", { id, name: id })).status, 400, "no path can name it");
  assert.equal((await call(operator, "PATCH", "/api/v1/settings", body)).status, 200);
  await call(operator, "GET", "/api/v1/settings");
  await call(operator, "GET", "/api/v1/audit");
  const started2 = await operator.call("POST", "/api/auth/sign-in/social", {
    provider: "oidc",
    callbackURL: "https://evil.example/",
  });
  assert.notEqual(started2.status, 200, "a sign-in leads to no other site");
  assert.ok(!seen.join().includes(clientSecret));
  const stored = await database.selectFrom("settings").selectAll().execute();
  const rows = await database.selectFrom("verifications").selectAll().execute();
  assert.ok(!JSON.stringify([stored, rows]).includes(clientSecret), "it is sealed in the database");
});

onPostgres("another provider's subjects are other people, and it does not get the secret before", async (database) => {
  const sub = uniqueName("1");
  const [email, otherEmail] = [`${uniqueName("ada")}@example.com`, `${uniqueName("bob")}@example.com`];
  await using provider = await startIdentityProvider({ sub, email, name: "Ada" });
  await using other = await startIdentityProvider({ sub, email: otherEmail, name: "Bob" });
  await using api = await startApi(database);
  const operator = await operatorOf(api);
  const change = (body: object) => operator.call("PATCH", "/api/v1/settings", body);
  const test = (body: object) => operator.call("POST", "/api/v1/settings/oidc-tests", body);
  const clientSecret = "provider-secret-0123456789";
  const first = { oidcIssuer: provider.issuer, oidcClientId: "sluice", oidcClientSecret: clientSecret };
  assert.equal((await change(first)).status, 200);
  const idNow = async () => {
    const browser = api.browser();
    assert.equal(await signInByProvider(browser), "/");
    return (await browser.api<{ id: string }>("GET", "/me")).id;
  };
  const ada = await idNow();
  for (const call of [test, change])
    assert.deepEqual(await call({ oidcIssuer: other.issuer }).then(({ status, body }) => [status, body.field]), [
      400,
      "oidcClientSecret",
    ]);
  assert.equal((await change({ oidcIssuer: `${provider.issuer}/` })).status, 200, "the same one");
  assert.equal(await idNow(), ada);
  assert.equal((await change({ oidcIssuer: other.issuer, oidcClientSecret: null })).status, 200);
  const bob = await idNow();
  assert.notEqual(bob, ada);
  assert.equal((await change(first)).status, 200, "without a secret nothing is given away");
  assert.equal(await idNow(), ada);
});

onPostgres("a provider that never answers keeps nobody else out", async (database) => {
  const [called, over] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  await using provider = await startScriptedUpstream(async (response) => {
    called.resolve();
    await over.promise;
    response.destroy();
  });
  await using api = await startApi(database, { OIDC_ISSUER: provider.origin, OIDC_CLIENT_ID: "sluice" });
  const { browser } = await api.member(await api.account(), "member");
  const signIn = api.browser().call("POST", "/api/auth/sign-in/social", { provider: "oidc", callbackURL: "/" });
  await called.promise;
  await browser.api("GET", "/me");
  over.resolve();
  assert.notEqual((await signIn).status, 200);
});

onPostgres("logins from before subjects had an issuer belong to the provider that is set", async (database) => {
  const sub = uniqueName("ada");
  await using provider = await startIdentityProvider({ sub, email: `${uniqueName("ada")}@example.com` });
  const variables = { OIDC_ISSUER: provider.issuer, OIDC_CLIENT_ID: "sluice" };
  const idNow = async () => {
    await using api = await startApi(database, variables);
    const browser = api.browser();
    assert.equal(await signInByProvider(browser), "/");
    return (await browser.api<{ id: string }>("GET", "/me")).id;
  };
  const id = await idNow();
  await database.updateTable("logins").set({ accountId: sub }).where("userId", "=", id).execute();
  assert.equal(await idNow(), id);
});

onPostgres("roles end that the mapping gives to nobody any more, also without a claim of groups", async (database) => {
  await using provider = await startIdentityProvider({
    sub: uniqueName("ada"),
    email: `${uniqueName("ada")}@example.com`,
  });
  await using api = await startApi(database, { OIDC_ISSUER: provider.issuer, OIDC_CLIENT_ID: "sluice" });
  const account = await api.account();
  await api.member(account, "owner");
  const rolesWith = async (oidcMapping: string, groups?: string[]) => {
    assert.equal((await api.machine("PATCH", "/settings", { oidcMapping })).status, 200);
    provider.person = { sub: provider.person.sub, email: String(provider.person.email), ...(groups && { groups }) };
    const browser = api.browser();
    assert.equal(await signInByProvider(browser), "/");
    const me = await browser.api<{ accounts: { role: string }[] }>("GET", "/me");
    return me.accounts.map(({ role }) => role);
  };
  const steps: [mapping: string, groups: string[] | undefined, roles: string[]][] = [
    [`*=${account}:owner`, undefined, ["owner"]],
    [`*=${account}:reader`, undefined, ["reader"]],
    [`eng=${account}:member`, ["eng"], ["member"]],
    [`eng=${account}:member`, undefined, ["member"]],
    [`eng=${account}:member,*=${account}:reader`, undefined, ["member"]],
    [`eng=${account}:owner,*=${account}:reader`, undefined, ["reader"]],
    ["", undefined, []],
    [`eng=${account}:member`, ["eng"], ["member"]],
    ["", ["eng"], []],
  ];
  for (const [mapping, groups, roles] of steps)
    assert.deepEqual(await rolesWith(mapping, groups), roles, `${mapping} ${groups}`);
});

onPostgres("with a mail server, invitations are sent and a forgotten password is set anew", async (database) => {
  await using mails = await startMailServer();
  await using api = await startApi(database, { SMTP_URL: mails.url, MAIL_FROM: "gateway@example.com" });
  const account = await api.account();
  const email = `${uniqueName("new")}@example.com`;
  const { body } = await api.machine<{ isSent: boolean; url: null }>("POST", `/accounts/${account}/invitations`, {
    role: "member",
    email,
  });
  assert.deepEqual([body.isSent, body.url], [true, null], "whoever invites does not get the link");
  const linkIn = (mail: string) =>
    /http\S+#token=[\w-]+/.exec(mail.replaceAll("=\r\n", "").replaceAll("=3D", "="))?.[0] ?? "";
  const invitation = await mails.next();
  assert.match(invitation, new RegExp(`From: Sluice <gateway@example.com>[^]*To: <?${email}`));
  const browser = api.browser();
  await browser.api("POST", "/invitations/accept", {
    token: tokenOf(linkIn(invitation)),
    name: "New",
    password: goodPassword,
  });
  await browser.signIn(email);

  const forget = (address: string) =>
    api.browser().call("POST", "/api/auth/request-password-reset", { email: address });
  const [answer, unknown] = [await forget(email), await forget(`nobody-${email}`)];
  assert.deepEqual([answer.status, answer.body], [200, unknown.body]);
  const token = tokenOf(linkIn(await mails.next()));
  const newPassword = "a password that is new";
  const reset = (password: string) =>
    api.browser().call("POST", "/api/auth/reset-password", { token, newPassword: password });
  assert.equal((await reset("short")).status, 400);
  assert.equal((await reset(newPassword)).status, 200);
  assert.equal((await reset(newPassword)).status, 400);
  assert.equal((await browser.call("GET", "/api/v1/me")).status, 401);
  assert.equal((await browser.signIn(email)).status, 401);
  assert.equal((await browser.signIn(email, newPassword)).status, 200);
});

onPostgres("only a link that came by mail proves that an address belongs to who used it", async (database) => {
  const isVerified = async (email: string) =>
    (await database.selectFrom("users").select("emailVerified").where("email", "=", email).executeTakeFirstOrThrow())
      .emailVerified;
  const join = async (api: TestApi, url: string, email: string) =>
    api.browser().api("POST", "/invitations/accept", {
      token: tokenOf(url),
      name: "New",
      email,
      password: goodPassword,
    });
  const [copied, mailed, chosen] = ["copied", "mailed", "chosen"].map((name) => `${uniqueName(name)}@example.com`) as [
    string,
    string,
    string,
  ];
  await using mails = await startMailServer();
  await using without = await startApi(database);
  await using api = await startApi(database, { SMTP_URL: mails.url });
  const account = await api.account();
  const invite = async (of: TestApi, email?: string) =>
    (await of.machine<{ url: string | null }>("POST", `/accounts/${account}/invitations`, { role: "member", email }))
      .body.url;
  await join(without, String(await invite(without, copied)), copied);
  assert.equal(await isVerified(copied), false);
  await join(api, String(await invite(api)), chosen);
  assert.equal(await isVerified(chosen), false);
  assert.equal(await invite(api, mailed), null);
  const mail = (await mails.next()).replaceAll("=\r\n", "").replaceAll("=3D", "=");
  await join(api, /http\S+#token=[\w-]+/.exec(mail)?.[0] ?? "", mailed);
  assert.equal(await isVerified(mailed), true);
});

onPostgres("mails that reset a password are limited, and do not keep the user out", async (database) => {
  await using mails = await startMailServer();
  await using api = await startApi(database, { SMTP_URL: mails.url });
  const { browser, email } = await api.member(await api.account(), "member");
  const forget = (address: string) =>
    api.browser().call("POST", "/api/auth/request-password-reset", { email: address });
  for (let times = 0; times < 5; times++) assert.equal((await forget(email)).status, 200);
  const sixth = await forget(email.toUpperCase());
  assert.equal(sixth.status, 429);
  assert.match(String(sixth.body.detail), /mails/);
  assert.equal((await api.browser().signIn(email)).status, 200);
  assert.equal(
    (await browser.call("POST", "/api/v1/me/password", { password: goodPassword, currentPassword: goodPassword }))
      .status,
    204,
  );
});

onPostgres(
  "with a mail server, a new address counts once its owner opens the link in the own session",
  async (database) => {
    await using mails = await startMailServer();
    await using api = await startApi(database, { SMTP_URL: mails.url });
    const account = await api.account();
    const { browser, user, email } = await api.member(account, "member");
    const other = await api.member(account, "member");
    const wanted = `${uniqueName("new")}@example.com`;
    const change = (of: typeof browser, to: string, more: object = {}) =>
      of.call("PATCH", "/api/v1/me", { email: to, currentPassword: goodPassword, ...more });
    const emailOf = async (of: typeof browser) => (await of.api<{ email: string }>("GET", "/me")).email;
    const linkFor = async (address: string) => {
      const mail = (await mails.next()).replaceAll("=\r\n", "").replaceAll("=3D", "=");
      assert.match(mail, new RegExp(`To: <?${address}`));
      return /http\S+/.exec(mail)?.[0] ?? "";
    };
    const open = async (of: typeof browser, url: string) =>
      (await of.call("GET", url, undefined, { origin: undefined })).headers.get("location");

    assert.equal((await change(browser, wanted, { currentPassword: undefined })).status, 400);
    assert.equal((await change(browser, other.email)).status, 409);
    const changed = await change(browser, wanted.toUpperCase(), { name: "Renamed" });
    assert.deepEqual([changed.status, changed.body.email, changed.body.name], [200, email, "Renamed"]);
    const link = await linkFor(wanted);
    assert.equal(await open(api.browser(), link), "/?error=SIGN_IN_FIRST");
    assert.equal(await open(other.browser, link), "/?error=INVALID_USER");
    assert.equal(await open(browser, link.replace("token=", "token=x")), "/?error=INVALID_TOKEN");
    assert.equal(await emailOf(browser), email);

    assert.equal((await change(other.browser, wanted)).status, 200);
    const late = await linkFor(wanted);
    assert.equal(await open(browser, link), "/");
    assert.equal(await emailOf(browser), wanted);
    assert.equal(await open(browser, link), "/?error=INVALID_TOKEN");
    assert.equal(await open(other.browser, late), "/?error=ADDRESS_TAKEN");
    assert.equal(await emailOf(other.browser), other.email);
    assert.equal((await api.browser().signIn(wanted)).status, 200);
    assert.equal((await api.browser().signIn(email)).status, 401);
    const { emailVerified } = await database
      .selectFrom("users")
      .select("emailVerified")
      .where("id", "=", user)
      .executeTakeFirstOrThrow();
    assert.equal(emailVerified, true);
    const entries = await database.selectFrom("audit").selectAll().where("actor_id", "=", user).orderBy("at").execute();
    assert.deepEqual(
      entries
        .filter(({ action }) => action !== "signIn" && action !== "acceptInvitation")
        .map(({ action, after }) => [action, after]),
      [
        ["updateMe", { name: "Renamed", email, unconfirmedEmail: wanted }],
        ["changeEmail", { email: wanted }],
      ],
    );
  },
);

const run = promisify(execFile);

test("sluice operator link prints a link that works once", async () => {
  await using opened = await openPostgres();
  await using api = await startApi(opened.database);
  const operatorLink = (token: string) =>
    run(process.execPath, ["apps/cli/main.ts", "operator", "link"], {
      cwd: resolve(import.meta.dirname, "../.."),
      env: { ...process.env, SLUICE_CONTROL_URL: api.url, OPERATOR_TOKEN: token },
    });
  const { stdout } = await operatorLink(operatorToken);
  const browser = api.browser();
  assert.equal((await browser.call("GET", stdout.trim())).status, 302);
  assert.equal((await browser.api("GET", "/me")).isOperator, true);
  await assert.rejects(operatorLink("wrong"), { code: 1, stdout: "", stderr: /token is not valid/ });
});

test("the first start has a link until an operator has signed in; replicas share operator and secret", async () => {
  await using opened = await openPostgres();
  const { database } = opened;
  await using first = await startApi(database);
  await using second = await startApi(database);
  const link = await first.signIn.firstLink();
  assert.ok(link !== undefined);
  assert.ok(link.startsWith(`${first.url}/api/auth/magic-link/verify?token=`));
  assert.notEqual(await second.signIn.firstLink(), undefined);
  const browser = first.browser();
  assert.equal((await browser.call("GET", link)).status, 302);
  assert.equal(await second.signIn.firstLink(), undefined);
  const { items } = await browser.api<{ items: { isOperator: boolean }[] }>("GET", "/users");
  assert.deepEqual(
    items.map(({ isOperator }) => isOperator),
    [true],
  );
  const elsewhere = await second.browser().call("GET", "/api/v1/me", undefined, { cookie: browser.cookie });
  assert.equal(elsewhere.body.isOperator, true);
});
