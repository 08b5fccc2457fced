/** Members, invitations, users, operator tokens and the audit log, on both databases. */
import assert from "node:assert/strict";
import { auditOperations } from "#api/audit.ts";
import { memberOperations } from "#api/members.ts";
import type { Operation } from "#api/operation.ts";
import { operations as allOperations } from "#api/operations.ts";
import { peopleOperations } from "#api/people.ts";
import { tokenOperations } from "#api/tokens.ts";
import { goodPassword, startApi, type TestApi, tokenOf, uniqueName } from "./browsers.ts";
import { onPostgres } from "./databases.ts";

interface Invitation {
  id: string;
  url: string;
  state: string;
  isSent: boolean;
}

const invite = async (api: TestApi, account: string, body: object) => {
  const answer = await api.machine<Invitation>("POST", `/accounts/${account}/invitations`, body);
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  return answer.body;
};

const accept = (browser: ReturnType<TestApi["browser"]>, url: string, more: object = {}) =>
  browser.call("POST", "/api/v1/invitations/accept", { token: tokenOf(url), ...more });

onPostgres("an invitation is shown, accepted once, and its token is stored nowhere", async (database) => {
  await using api = await startApi(database);
  const account = await api.account();
  const { url, isSent, id } = await invite(api, account, { role: "member" });
  assert.equal(isSent, false);
  assert.ok(url.startsWith(`${api.url}/invitation#token=`));
  const shown = await api.browser().call("POST", "/api/v1/invitations/show", { token: tokenOf(url) });
  assert.deepEqual([shown.body.account, shown.body.accountName, shown.body.role], [account, account, "member"]);
  const rows = await database.selectFrom("invitations").selectAll().where("id", "=", id).execute();
  const entries = await database.selectFrom("audit").selectAll().where("account", "=", account).execute();
  assert.equal(JSON.stringify([rows, entries]).includes(tokenOf(url)), false);

  const email = `${uniqueName("new")}@example.com`;
  const user = { name: "New", email, password: goodPassword };
  for (const missing of ["name", "email", "password"])
    assert.equal((await accept(api.browser(), url, { ...user, [missing]: undefined })).body.field, missing);
  const answers = await Promise.all([
    accept(api.browser(), url, user),
    accept(api.browser(), url, { ...user, email: `x${email}` }),
  ]);
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 404]);
  assert.equal((await accept(api.browser(), url, user)).status, 404);
});

onPostgres(
  "a signed-in user accepts with the right address only; invitations expire and can be revoked",
  async (database) => {
    await using api = await startApi(database);
    const [first, second] = [await api.account(), await api.account()];
    const { browser, email, user } = await api.member(first, "reader");
    const other = await invite(api, second, { role: "owner", email: "somebody@example.com" });
    assert.equal((await accept(browser, other.url)).status, 403);
    const own = await invite(api, second, { role: "owner", email: email.toUpperCase() });
    assert.equal((await accept(api.browser(), own.url, { name: "x", password: goodPassword })).status, 409);
    assert.deepEqual((await accept(browser, own.url)).body, { account: second, user, role: "owner" });
    const me = await browser.api<{ accounts: { id: string; role: string }[] }>("GET", "/me");
    assert.deepEqual(
      me.accounts.map(({ id, role }) => [id, role]).sort(),
      [
        [first, "reader"],
        [second, "owner"],
      ].sort(),
    );
    const again = await invite(api, second, { role: "reader" });
    assert.equal((await accept(browser, again.url)).status, 409);

    await browser.api("DELETE", `/accounts/${second}/invitations/${again.id}`);
    assert.equal((await accept(browser, again.url)).status, 404);
    assert.equal((await browser.call("DELETE", `/api/v1/accounts/${second}/invitations/${own.id}`)).status, 404);
    await database.updateTable("invitations").set({ expires_at: new Date() }).where("id", "=", other.id).execute();
    const { items } = await browser.api<{ items: Invitation[] }>("GET", `/accounts/${second}/invitations`);
    assert.deepEqual(
      items.map(({ id, state }) => [id, state]),
      [
        [own.id, "accepted"],
        [other.id, "expired"],
      ],
    );
    assert.equal((await accept(api.browser(), other.url)).status, 404);
  },
);

onPostgres("the last owner and the last operator stay, also when two leave at once", async (database) => {
  await using api = await startApi(database);
  const account = await api.account();
  const [one, two] = [await api.member(account, "owner"), await api.member(account, "owner")];
  const path = (user: string) => `/api/v1/accounts/${account}/members/${user}`;
  const both = await Promise.all([
    one.browser.call("PATCH", path(one.user), { role: "member" }),
    two.browser.call("DELETE", path(two.user)),
  ]);
  assert.deepEqual(both.map(({ status }) => status >= 400).sort(), [false, true]);
  const { body: members } = await api.machine<{ items: { user: string; role: string }[] }>(
    "GET",
    `/accounts/${account}/members`,
  );
  const owners = members.items.filter(({ role }) => role === "owner");
  assert.equal(owners.length, 1);
  assert.equal((await api.machine("DELETE", `/users/${owners[0]?.user}`)).status, 409);
  assert.equal((await api.machine("DELETE", `/accounts/${account}/members/nobody`)).status, 404);

  const { body: link } = await api.machine<{ user: string }>("POST", "/sign-in-links", {});
  assert.equal((await api.machine("PATCH", `/users/${link.user}`, { isOperator: false })).status, 409);
  assert.equal((await api.machine("DELETE", `/users/${link.user}`)).status, 409);
  const reader = await api.member(account, "reader");
  assert.equal((await api.machine("PATCH", `/users/${reader.user}`, { isOperator: true })).status, 200);
  assert.equal((await reader.browser.call("GET", "/api/v1/users")).status, 200);
  assert.equal((await api.machine("PATCH", `/users/${reader.user}`, { isOperator: false })).status, 200);
  assert.equal((await reader.browser.call("GET", "/api/v1/users")).status, 403);
  assert.equal((await api.machine("DELETE", `/users/${reader.user}/sessions`)).status, 204);
  assert.equal((await reader.browser.call("GET", "/api/v1/me")).status, 401);
  assert.equal((await api.machine("DELETE", `/users/${reader.user}`)).status, 204);
  assert.equal((await reader.browser.signIn(reader.email)).status, 401);
});

onPostgres(
  "a token gives only roles whose operations its scopes allow, by invitation or to a member",
  async (database) => {
    await using api = await startApi(database);
    const account = await api.account();
    await api.member(account, "owner");
    const { user } = await api.member(account, "reader");
    const givenBy = async (scopes: string[]) => {
      const { body } = await api.machine<{ token: string }>("POST", "/tokens", { name: "t", scopes });
      const invitationLinks: string[] = [];
      for (const role of ["reader", "member", "owner"]) {
        const invited = await api.machine("POST", `/accounts/${account}/invitations`, { role }, body.token);
        const changed = await api.machine("PATCH", `/accounts/${account}/members/${user}`, { role }, body.token);
        assert.deepEqual([invited.status, changed.status], invited.status === 201 ? [201, 200] : [403, 403]);
        if (invited.status === 201) invitationLinks.push(role);
      }
      return invitationLinks;
    };
    assert.deepEqual(await givenBy(["create*", "updateMember"]), []);
    const ofReaders = ["get*", "list*", "sum*", "export*"];
    assert.deepEqual(await givenBy(["create*", "updateMember", ...ofReaders]), ["reader"]);
    const ofMembers = Object.entries(allOperations).flatMap(([name, { access }]) =>
      access === "member" ? [name] : [],
    );
    const invites = ["createInvitation", "updateMember"];
    assert.deepEqual(await givenBy([...invites, ...ofReaders, ...ofMembers]), ["reader", "member"]);
    assert.deepEqual(await givenBy(["*"]), ["reader", "member", "owner"]);
  },
);

onPostgres("a token has its scopes, is shown once, expires, and cannot widen itself", async (database) => {
  await using api = await startApi(database);
  const create = (body: object) => api.machine<{ id: string; token: string; hint: string }>("POST", "/tokens", body);
  const { body: token } = await create({ name: "reports", scopes: ["list*", "createToken", "createSignInLink"] });
  assert.equal(token.token.slice(-4), token.hint);
  const use = (method: string, path: string, body?: object) => api.machine(method, path, body, token.token);
  assert.equal((await use("GET", "/accounts")).status, 200);
  assert.equal((await use("POST", "/accounts", { name: "x" })).status, 403);
  assert.equal((await use("POST", "/tokens", { name: "wide", scopes: ["*"] })).status, 403);
  assert.equal((await use("POST", "/sign-in-links", {})).status, 403);
  const listed = await api.machine<{ items: { id: string; lastUsedAt: string | null }[] }>("GET", "/tokens");
  assert.equal(JSON.stringify(listed.body).includes(token.token), false);
  assert.notEqual(listed.body.items.find(({ id }) => id === token.id)?.lastUsedAt, null);
  assert.equal((await api.machine("POST", `/tokens/${token.id}/revoke`)).status, 200);
  assert.equal((await use("GET", "/accounts")).status, 401);

  assert.equal((await create({ name: "x", scopes: ["listAcounts"] })).status, 400);
  assert.equal((await create({ name: "x", scopes: ["nothing*"] })).status, 400);
  assert.equal((await create({ name: "x", scopes: [] })).status, 400);
  const { body: old } = await create({ name: "old", scopes: ["*"], expiresAt: new Date(Date.now() - 1).toISOString() });
  assert.equal((await api.machine("GET", "/accounts", undefined, old.token)).status, 401);
  const entries = await database.selectFrom("audit").selectAll().where("subject", "=", `token ${token.id}`).execute();
  assert.equal(JSON.stringify(entries).includes(token.token), false);
});

onPostgres("the audit log shows an owner the changes of the own account, filtered and in pages", async (database) => {
  await using api = await startApi(database);
  const [account, foreign] = [await api.account(), await api.account()];
  const owner = await api.member(account, "owner");
  const member = await api.member(account, "member");
  await api.member(foreign, "owner");
  await owner.browser.api("PATCH", `/accounts/${account}/members/${member.user}`, { role: "reader" });
  interface Log {
    items: {
      at: string;
      action: string;
      account: string;
      actor: { id: string };
      before: { role: string };
      after: { role: string };
    }[];
    nextCursor: string | null;
  }
  const log = (query: string) => owner.browser.api<Log>("GET", `/audit?${query}`);
  const whole = await log("");
  assert.deepEqual(
    whole.items.map(({ action }) => action),
    ["updateMember", "acceptInvitation", "createInvitation", "acceptInvitation", "createInvitation", "createAccount"],
  );
  assert.ok(whole.items.every((entry) => entry.account === account));
  const [{ before, after } = assert.fail()] = whole.items;
  assert.deepEqual([before.role, after.role], ["member", "reader"]);
  const paged: Log["items"] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const page: Log = await log(`limit=4${cursor && `&cursor=${cursor}`}`);
    paged.push(...page.items);
    cursor = page.nextCursor;
  }
  assert.deepEqual(paged, whole.items);
  assert.equal((await log(`actor=${owner.user}`)).items.length, 2);
  assert.equal((await log("action=createInvitation")).items.length, 2);
  assert.equal((await log(`account=${foreign}`)).items.length, 0);
  assert.equal((await log(`from=${new Date(Date.now() + 1_000).toISOString()}`)).items.length, 0);
  assert.equal((await log(`to=${whole.items[1]?.at}`)).items.length, 4);
});

const operations: Record<string, Operation> = {
  ...memberOperations,
  ...peopleOperations,
  ...tokenOperations,
  ...auditOperations,
};
const ranks = ["reader", "member", "owner"];

/** Bodies that pass validation. */
const bodies: Record<string, object> = {
  updateMember: { role: "reader" },
  createInvitation: { role: "reader" },
  updateMe: {},
  setMyPassword: { password: goodPassword },
  updateUser: { isOperator: true },
  createSignInLink: {},
  createToken: { name: "x", scopes: ["*"] },
  showInvitation: { token: "x" },
  acceptInvitation: { token: "x" },
};

onPostgres("every operation refuses whoever lacks the role, and ids of another account", async (database) => {
  await using api = await startApi(database);
  const [account, foreign] = [await api.account(), await api.account()];
  const target = await api.member(foreign, "owner");
  const { id: invitation } = await invite(api, foreign, { role: "owner" });
  const values: Record<string, string> = {
    account: foreign,
    user: target.user,
    invitation,
    token: "token_x",
    session: "x",
  };
  const stateOf = async () =>
    JSON.stringify([
      await database.selectFrom("members").selectAll().where("account", "=", foreign).execute(),
      await database.selectFrom("invitations").selectAll().where("account", "=", foreign).execute(),
      await database.selectFrom("users").selectAll().where("id", "=", target.user).execute(),
    ]);
  const before = await stateOf();
  const actors = await Promise.all(ranks.map(async (role) => ({ role, ...(await api.member(account, role)) })));
  for (const [name, { method, path, access, body }] of Object.entries(operations)) {
    const url = `/api/v1${path.replaceAll(/:(\w+)/g, (_, param: string) => values[param] ?? assert.fail(param))}`;
    const input = body && (bodies[name] ?? assert.fail(`a body for ${name}`));
    if (access !== "anyone") assert.equal((await api.browser().call(method, url, input)).status, 401, name);
    for (const { role, browser } of actors) {
      // Ends the session that the test goes on with.
      if (name === "endSessions" || name === "setMyPassword") continue;
      const { status } = await browser.call(method, url, input);
      const where = `${name} as ${role}: ${status}`;
      if (access === "operator") assert.equal(status, 403, where);
      else if (path.includes(":")) assert.ok(status === 404 || status === 403, where);
      else assert.ok(status < 500, where);
    }
  }
  assert.equal(await stateOf(), before);
});

onPostgres("within the own account, each role may do what it is for", async (database) => {
  await using api = await startApi(database);
  const account = await api.account();
  const values: Record<string, string> = { account, user: "nobody", invitation: "nothing" };
  for (const role of ranks) {
    const { browser } = await api.member(account, role);
    for (const [name, { method, path, access, body }] of Object.entries(
      memberOperations as Record<string, Operation>,
    )) {
      if (access === "anyone") continue;
      const url = `/api/v1${path.replaceAll(/:(\w+)/g, (_, param: string) => values[param] ?? assert.fail(param))}`;
      const answer = await browser.call<{ detail?: string }>(method, url, body && bodies[name]);
      const isAllowed = ranks.indexOf(role) >= ranks.indexOf(access);
      const isRefused = answer.status === 403 || answer.body.detail?.startsWith("There is no account") === true;
      assert.equal(isRefused, !isAllowed, `${name} as ${role}: ${answer.status}`);
    }
  }
});
