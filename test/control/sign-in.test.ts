/** Sign-in over HTTP: links, passwords, second factors, sessions, origins and limits, on both databases. */
import assert from "node:assert/strict";
import { getMigrations } from "better-auth/db/migration";
import { pino } from "pino";
import { authOptionsOf } from "../../apps/control/sign-in/auth.ts";
import { goodPassword, startApi, uniqueName } from "./api.ts";
import { onBoth } from "./databases.ts";

onBoth("the tables are those that better-auth expects", async (database) => {
  const options = authOptionsOf({
    database,
    url: "",
    secret: "s".repeat(32),
    oidc: { issuer: "http://127.0.0.1:1", clientId: "c", clientSecret: undefined },
    sendPasswordToken: undefined,
    record: async () => {},
    log: pino({ level: "silent" }),
  });
  const { toBeCreated, toBeAdded, schemaProblems } = await getMigrations(options as never);
  assert.deepEqual(
    { tables: toBeCreated.map(({ table }) => table), columns: toBeAdded, schemaProblems },
    { tables: [], columns: [], schemaProblems: [] },
  );
});

onBoth("a sign-in link signs the first operator in once, who sets a password with it", async (database) => {
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
