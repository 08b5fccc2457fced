/** Stored credentials: a value goes in, is sealed, and comes out nowhere but at a worker. */
import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { openCredential } from "#catalogue/credentials.ts";
import { exportDatabase } from "../../apps/control/database/transfer.ts";
import { credentialsSecrets, operator, startApi } from "./api.ts";
import { onBoth } from "./databases.ts";

const value = "sk-test-0123456789abcdefWXYZ";
const other = "sk-other-9876543210fedcbaSTUV";

async function startHere(database: Parameters<typeof startApi>[0]) {
  for (const table of ["catalogue_revisions", "catalogue_active", "credentials", "audit"] as const)
    await database.deleteFrom(table).execute();
  const api = await startApi(database);
  const call = (method: string, path: string, body?: object, revision = 0) =>
    api.call(operator, method, `/catalogue/${path}`, body, { "if-match": `"${revision}"` });
  return { api, call, [Symbol.asyncDispose]: () => api[Symbol.asyncDispose]() };
}

onBoth("a credential shows its last four characters, and a mask sent back changes nothing", async (database) => {
  await using opened = await startHere(database);
  const { call } = opened;
  const { body: stored, status } = await call("PUT", "credentials/vendor", { value: ` ${value}\n` });
  assert.equal(status, 200);
  assert.deepEqual(
    [stored.hint, stored.version, stored.state, stored.reference],
    ["WXYZ", 1, "usable", "stored:vendor"],
  );
  const sealed = async () =>
    (await database.selectFrom("credentials").select("sealed").executeTakeFirstOrThrow()).sealed;
  const before = await sealed();
  assert.equal(openCredential(credentialsSecrets, "vendor", before), value);
  assert.equal(openCredential(credentialsSecrets, "another", before), undefined);
  for (const masked of [null, "…WXYZ", "••••WXYZ", "****************WXYZ", "...WXYZ", "•", "WXYZ"]) {
    const { body } = await call("PUT", "credentials/vendor", { value: masked });
    assert.equal(body.version, 1, String(masked));
    assert.equal(await sealed(), before);
  }
  assert.equal((await call("PUT", "credentials/none", { value: null })).status, 400);
  assert.equal((await call("PUT", "credentials/none", { value: "…abcd" })).status, 400);
  for (const wrong of ["two words", "line\nbreak", "schlüssel", " "])
    assert.equal((await call("PUT", "credentials/vendor", { value: wrong })).status, 400, wrong);
  assert.equal((await call("PUT", "credentials/short", { value: "short" })).body.hint, "");
  const google = JSON.stringify({ type: "service_account", private_key: "-----BEGIN\n" }, null, 2);
  assert.equal((await call("PUT", "credentials/google", { value: google })).status, 200);
});

onBoth("a credential that an upstream names stays, and one that is not stored cannot be named", async (database) => {
  await using opened = await startHere(database);
  const { call } = opened;
  const upstream = { dialect: "openai-chat", baseUrl: "http://127.0.0.1:2", credential: "stored:vendor" };
  const absent = await call("PUT", "upstreams/own", upstream);
  assert.equal(absent.status, 400);
  assert.match(absent.body.detail, /no credential "vendor" is stored/);
  await call("PUT", "credentials/vendor", { value });
  assert.equal((await call("PUT", "upstreams/own", upstream)).status, 200);
  const [item] = (await call("GET", "credentials")).body.items;
  assert.deepEqual(item.usedBy, ["own"]);
  const refused = await call("DELETE", "credentials/vendor");
  assert.equal(refused.status, 409);
  assert.deepEqual(refused.body.usedBy, ["own"]);
  assert.equal((await call("DELETE", "upstreams/own", undefined, 1)).status, 200);
  assert.equal((await call("DELETE", "credentials/vendor")).status, 204);
  assert.equal((await call("DELETE", "credentials/vendor")).status, 404);
});

onBoth(
  "a new secret seals everything anew, and without the old one a credential must be stored again",
  async (database) => {
    await using opened = await startHere(database);
    const { call } = opened;
    await call("PUT", "credentials/vendor", { value });
    await call("PUT", "credentials/vendor", { value: other, overlapSeconds: 3_600 });
    const [first] = credentialsSecrets;
    try {
      credentialsSecrets.unshift("another secret of the tests, the newer one");
      // Any change publishes; before that, it looks at the secrets.
      await call("PUT", "credentials/second", { value });
      credentialsSecrets.pop();
      const rows = await database.selectFrom("credentials").selectAll().where("name", "=", "vendor").execute();
      assert.equal(openCredential(credentialsSecrets, "vendor", rows[0]?.sealed ?? ""), other);
      assert.equal(openCredential(credentialsSecrets, "vendor", rows[0]?.previous_sealed ?? ""), value);
      credentialsSecrets.splice(0, 1, "a third secret, which has sealed none of them");
      const { items } = (await call("GET", "credentials")).body;
      assert.deepEqual(
        items.map(({ state }: { state: string }) => state),
        ["unreadable", "unreadable"],
      );
    } finally {
      credentialsSecrets.splice(0, credentialsSecrets.length, first as string);
    }
  },
);

onBoth("no answer, audit entry, backup or Redis shows a value", async (database) => {
  await using opened = await startHere(database);
  const { api, call } = opened;
  const texts: string[] = [];
  const note = async (answer: Promise<{ text: string }>) => void texts.push((await answer).text);
  await note(call("PUT", "credentials/vendor", { value }));
  await note(call("PUT", "credentials/vendor", { value: other, overlapSeconds: 60 }));
  const upstream = { dialect: "openai-chat", baseUrl: "http://127.0.0.1:2", credential: "stored:vendor" };
  await note(call("PUT", "upstreams/own", upstream));
  await note(call("GET", "credentials"));
  await note(call("GET", "entries"));
  await note(api.call(operator, "GET", "/audit"));
  // Values where they do not belong.
  await note(call("PUT", "credentials/vendor", { value: `${value} ${other}` }));
  await note(call("PUT", "credentials/vendor", [value] as object));
  await note(call("PUT", "upstreams/wrong", { ...upstream, credential: value }, 1));
  await note(call("DELETE", "credentials/vendor"));
  const exported = new PassThrough();
  const reading = text(exported);
  await exportDatabase(database, exported);
  exported.end();
  texts.push(await reading);
  for (const name of await api.redis.keys("*"))
    if ((await api.redis.type(name)) === "hash") texts.push(JSON.stringify(await api.redis.hgetall(name)));
  assert.ok(
    texts.some((each) => each.includes("WXYZ") || each.includes("STUV")),
    "hints are shown",
  );
  for (const each of texts)
    for (const secret of [value, other, Buffer.from(value).toString("base64"), Buffer.from(other).toString("base64")])
      assert.ok(!each.includes(secret), each.slice(0, 300));
});
