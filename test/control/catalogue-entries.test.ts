/** Entries of the catalogue in the database: their revisions, their checks, and stale changes. */
import assert from "node:assert/strict";
import { stringify } from "yaml";
import { operator, startApi, type TestApi } from "./api.ts";
import { onBoth } from "./databases.ts";

const upstream = { dialect: "openai-chat", baseUrl: "http://127.0.0.1:2/v1" };
const model = { prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: "u", model: "m" }] };

/** The entries begin as they were: the tests share the embedded database. */
async function startHere(database: Parameters<typeof startApi>[0]) {
  await database.deleteFrom("catalogue_revisions").execute();
  await database.deleteFrom("catalogue_active").execute();
  const api = await startApi(database);
  const change = (method: string, path: string, body?: object, revision?: number) =>
    api.call(
      operator,
      method,
      `/catalogue/${path}`,
      body,
      revision === undefined ? {} : { "if-match": `"${revision}"` },
    );
  return { api, change, [Symbol.asyncDispose]: () => api[Symbol.asyncDispose]() };
}

const entriesOf = async ({ call }: TestApi) => (await call(operator, "GET", "/catalogue/entries")).body;

onBoth("a change makes a revision, names what it changes, and is in the audit log", async (database) => {
  await using opened = await startHere(database);
  const { api, change } = opened;
  const before = await api.call(operator, "GET", "/catalogue/entries");
  assert.equal(before.headers.etag, '"0"');
  assert.equal(before.body.upstreams[0].source, "file");
  const added = await change("PUT", "upstreams/own?comment=for%20tests", upstream, 0);
  assert.equal(added.status, 200, added.text);
  assert.equal(added.headers.etag, '"1"');
  assert.equal(added.body.isPublished, true);
  assert.deepEqual(added.body.changes.upstreams.added, ["own"]);
  assert.ok(
    added.body.diff.lines.some(
      ({ kind, text }: { kind: string; text: string }) => kind === "added" && text.includes("own:"),
    ),
  );
  const { upstreams, revision } = await entriesOf(api);
  assert.equal(revision, 1);
  assert.deepEqual(upstreams.at(-1), { name: "own", source: "database", entry: upstream });
  const same = await change("PUT", "upstreams/own", upstream, 1);
  assert.deepEqual([same.body.revision, same.body.isPublished], [1, false]);
  const changed = await change("PUT", "upstreams/own", { ...upstream, prefill: true }, 1);
  assert.deepEqual(changed.body.changes.upstreams.changed, ["own"]);
  const { body } = await api.call(operator, "GET", "/audit?action=putUpstream");
  const [newest] = body.items;
  assert.equal(newest.subject, "catalogue revision 2");
  assert.deepEqual(newest.before.upstreams, { own: upstream });
  assert.deepEqual(newest.after.upstreams, { own: { ...upstream, prefill: true } });
  const removed = await change("DELETE", "upstreams/own", undefined, 2);
  assert.equal(removed.body.revision, 3);
  assert.equal((await change("DELETE", "upstreams/own", undefined, 3)).status, 404);
});

onBoth("a change that is not valid changes nothing, and every mistake is named", async (database) => {
  await using opened = await startHere(database);
  const { api, change } = opened;
  const cases: [path: string, body: object, status: number, message: RegExp][] = [
    [
      "upstreams/own",
      { ...upstream, dialect: "openai" },
      400,
      /revision 1: upstreams\.own\.dialect: must be "openai-chat"/,
    ],
    ["upstreams/Own", upstream, 400, /the name of an upstream must be/],
    ["upstreams/own", { ...upstream, baseUrl: "ftp://host" }, 400, /upstreams\.own\.baseUrl: the scheme must be/],
    [
      "upstreams/own",
      { ...upstream, credential: "AUTH_SECRET" },
      400,
      /AUTH_SECRET is a setting of the gateway itself/,
    ],
    ["upstreams/own", { ...upstream, credential: "AUTH_SECRET_FILE" }, 400, /is a setting of the gateway itself/],
    ["upstreams/own", { ...upstream, credentials: ["DATABASE_URL"] }, 400, /DATABASE_URL is a setting/],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the catalogue's own form
    ["upstreams/own", { ...upstream, baseUrl: "http://host/${REDIS_URL:-x}" }, 400, /REDIS_URL is a setting/],
    ...["OTEL_EXPORTER_OTLP_HEADERS", "HTTPS_PROXY", "http_proxy", "SLUICE_KEY"].map(
      (name): [string, object, number, RegExp] => [
        "upstreams/own",
        { ...upstream, baseUrl: `http://host/\${${name}:-x}` },
        400,
        new RegExp(`${name} is a setting`),
      ],
    ),
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the catalogue's own form
    ...["http://169.254.169.254/${ABSENT}", "http://169.254.169.${ABSENT}", "http://100.100.100.200"].map(
      (baseUrl): [string, object, number, RegExp] => [
        "upstreams/own",
        { ...upstream, baseUrl, requires: "ABSENT" },
        400,
        /upstreams\.own\.baseUrl: is a link-local address/,
      ],
    ),
    [
      "upstreams/own",
      { ...upstream, baseUrl: "http://169.254.169.254/v1" },
      400,
      /upstreams\.own\.baseUrl: is a link-local address/,
    ],
    ["upstreams/own", { ...upstream, headers: { authorization: "x" } }, 400, /use `credential` for secrets/],
    [
      "upstreams/u",
      upstream,
      409,
      /catalogue\.yaml:2:\d+: upstreams\.u: upstream "u" is also in revision 1; remove one/,
    ],
    ["models/one", model, 409, /model "one" is also in revision 1/],
    [
      "models/two",
      { ...model, route: [{ upstream: "none", model: "m" }] },
      400,
      /revision 1: models\.two\.route\[0\]\.upstream: no upstream/,
    ],
    ["models/two", { ...model, typo: 1 }, 400, /models\.two\.typo: no such setting/],
    ["models/two", { ...model, fallbacks: ["two"] }, 400, /is the model itself/],
    ["groups/g", { models: ["absent"] }, 400, /groups\.g\.models\[0\]: no model has the id "absent"/],
    ["queues/q", { parts: 0 }, 400, /queues\.q\.parts/],
    ["queues/__proto__", {}, 400, /the name of a queue must be/],
  ];
  for (const [path, body, status, message] of cases) {
    const { status: actual, body: problem, text } = await change("PUT", path, body, 0);
    assert.equal(actual, status, `${path}: ${text}`);
    assert.match(problem.detail, message);
    assert.ok(problem.faults.length >= 1);
  }
  const file = await change("DELETE", "upstreams/u", undefined, 0);
  assert.match(file.body.detail, /is in .*catalogue\.yaml: remove it there/);
  assert.equal((await entriesOf(api)).revision, 0);
  const dry = await change("PUT", "upstreams/own?dryRun=true", upstream, 0);
  assert.deepEqual([dry.status, dry.body.isPublished, dry.body.changes.upstreams.added], [200, false, ["own"]]);
  assert.equal((await entriesOf(api)).revision, 0);
});

onBoth("a stale change is refused with what changed; changes of other entries do no harm", async (database) => {
  await using opened = await startHere(database);
  const { change } = opened;
  assert.equal((await change("PUT", "upstreams/own", upstream)).status, 428);
  assert.equal((await change("PUT", "upstreams/own", upstream, 0)).status, 200);
  assert.equal((await change("PUT", "models/two", model, 0)).body.revision, 2);
  const stale = await change("PUT", "upstreams/own", { ...upstream, prefill: true }, 0);
  assert.equal(stale.status, 409);
  assert.equal(stale.body.revision, 2);
  assert.equal(stale.body.author, "op");
  assert.deepEqual(stale.body.changes, [
    { kind: "upstream", name: "own", change: "added" },
    { kind: "model", name: "two", change: "added" },
  ]);
  assert.ok(stale.body.diff.lines.length > 0);
  assert.equal((await change("PUT", "upstreams/own", upstream, 7)).status, 409);
  // Two at once: one of them is stale.
  const both = await Promise.all([1, 2].map((waitMs) => change("PUT", "queues/q", { waitMs }, 2)));
  assert.deepEqual(both.map(({ status }) => status).sort(), [200, 409]);
});

onBoth("revisions are listed, compared and restored, and a restored one is checked again", async (database) => {
  await using opened = await startHere(database);
  const { api, change } = opened;
  const get = async (path: string) => (await api.call(operator, "GET", `/catalogue/${path}`)).body;
  await change("PUT", "upstreams/own?comment=first", upstream, 0);
  await change("PUT", "models/two", { ...model, route: [{ upstream: "own", model: "m" }] }, 1);
  await change("PUT", "models/two", { ...model, route: [{ upstream: "u", model: "m" }] }, 2);
  await change("DELETE", "upstreams/own", undefined, 3);
  const { items } = await get("revisions");
  assert.deepEqual(
    items.map(({ number, parent, isActive, summary, comment, author }: Record<string, unknown>) => [
      number,
      parent,
      isActive,
      summary,
      comment,
      author,
    ]),
    [
      [4, 3, true, "removed upstream own", "", "op"],
      [3, 2, false, "changed model two", "", "op"],
      [2, 1, false, "added model two", "", "op"],
      [1, 0, false, "added upstream own", "first", "op"],
    ],
  );
  assert.deepEqual((await get("revisions/2/changes")).changes, [
    { kind: "upstream", name: "own", change: "removed" },
    { kind: "model", name: "two", change: "changed" },
  ]);
  assert.deepEqual((await get("revisions/0/changes?to=1")).changes, [
    { kind: "upstream", name: "own", change: "added" },
  ]);
  assert.equal((await api.call(operator, "GET", "/catalogue/revisions/9/changes")).status, 404);
  assert.equal((await change("POST", "revisions/2/restore")).status, 428);
  const dry = await change("POST", "revisions/2/restore?dryRun=true", undefined, 4);
  assert.deepEqual([dry.body.isPublished, dry.body.changes.upstreams.added], [false, ["own"]]);
  const restored = await change("POST", "revisions/2/restore", undefined, 4);
  assert.deepEqual([restored.status, restored.body.revision], [200, 5]);
  assert.equal((await get("revisions/2/changes")).changes.length, 0);
  assert.equal((await get("revisions")).items[0].comment, "restores revision 2");
  assert.equal((await change("POST", "revisions/0/restore", undefined, 4)).status, 409);
  // The credential of that revision was deleted since then.
  await change("POST", "revisions/0/restore", undefined, 5);
  const credential = { ...upstream, credential: "stored:gone" };
  await database
    .updateTable("catalogue_revisions")
    .set({ document: JSON.stringify({ upstreams: { own: credential }, models: {}, groups: {}, queues: {} }) })
    .where("number", "=", 1)
    .execute();
  const refused = await change("POST", "revisions/1/restore", undefined, 6);
  assert.equal(refused.status, 400);
  assert.match(refused.body.detail, /no credential "gone" is stored/);
});

onBoth("an export can be imported again, here without effect and elsewhere as it is", async (database) => {
  await using opened = await startHere(database);
  const { api, change } = opened;
  const exported = async (source: string) =>
    (await api.call(operator, "GET", `/catalogue/export?source=${source}`)).text;
  await change("PUT", "upstreams/own", upstream, 0);
  await change("PUT", "models/openai%2Ftwo", { ...model, route: [{ upstream: "own", model: "m" }] }, 1);
  const own = await exported("database");
  assert.match(own, /id: openai\/two/);
  assert.ok(!own.includes("id: one"));
  const all = await exported("all");
  assert.ok(all.includes("id: one") && all.includes("id: openai/two"));
  for (const text of [own, all]) {
    const again = await change("POST", "import", { text }, 2);
    assert.deepEqual([again.status, again.body.isPublished, again.body.revision], [200, false, 2], again.text);
  }
  const removed = await change("POST", "import?dryRun=true", { text: "models: []" }, 2);
  assert.deepEqual(removed.body.changes.models.removed, ["openai/two"]);
  const merged = await change("POST", "import", { text: "queues: { slow: { waitMs: 5 } }", mode: "merge" }, 2);
  assert.deepEqual([merged.body.revision, merged.body.changes.queues.added], [3, ["slow"]]);
  const cases: [text: string, status: number, message: RegExp][] = [
    [
      "upstreams: { u: { dialect: openai-chat, baseUrl: http://127.0.0.1:9 } }",
      409,
      /upstream "u" is also in revision 4/,
    ],
    ["currency: EUR", 409, /prices are in EUR/],
    ["a: [", 400, /the text:1:/],
    ["- 1", 400, /no catalogue/],
    ["lanes: {}", 400, /lanes is no setting/],
    ["models: oops", 400, /models must be a list/],
    ["models: { two: {} }", 400, /models must be a list/],
    ["models: [two]", 400, /models\[0\] must be a mapping with an id/],
    ["models: [{ prices: {} }]", 400, /models\[0\] must be a mapping with an id/],
    ["models: [{ id: 12 }]", 400, /models\[0\] must be a mapping with an id/],
    ["models: [{ id: a }, { id: b }, { id: a }]", 400, /models\[2\]: the id "a" is there twice/],
    ["upstreams: []", 400, /upstreams must be a mapping/],
    ["queues: { slow: 5 }", 400, /queues\.slow must be a mapping/],
    ["groups: { g: { models: [one], priceRatio: .nan } }", 400, /groups\.g\.priceRatio/],
    ["groups: { g: { models: [one], priceRatio: .inf } }", 400, /groups\.g\.priceRatio/],
    [`a: &a ${"x".repeat(100_000)}\nqueues: { q: { waitMs: [${"*a,".repeat(1_900)}] } }`, 400, /a is no setting/],
    [
      `queues: { p: { waitMs: &a ${"x".repeat(300_000)} }, q: { waitMs: [${"*a,".repeat(1_900)}] } }`,
      413,
      /would be longer than/,
    ],
    [
      `queues: { p: { waitMs: &a [${"1,".repeat(100_000)}] }, q: { waitMs: [${"*a,".repeat(1_900)}] } }`,
      400,
      /more than 1000000 values/,
    ],
    [
      "models: [{ id: x, prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: gone, model: m }] }]",
      400,
      /no upstream is named "gone"/,
    ],
  ];
  for (const [text, status, message] of cases) {
    const answer = await change("POST", "import", { text }, 3);
    assert.equal(answer.status, status, answer.text);
    assert.match(answer.body.detail, message);
  }
  // Longer than other bodies may be.
  const headers = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`x-${index}`, "x".repeat(1_500)]));
  const upstreams = Object.fromEntries(
    Array.from({ length: 18 }, (_, index) => [`long-${index}`, { ...upstream, headers }]),
  );
  const text = stringify({ upstreams }, { aliasDuplicateObjects: false });
  const long = await change("POST", "import", { text, mode: "merge" }, 3);
  assert.deepEqual([long.body.revision, long.body.changes?.upstreams.added.length], [4, 18], long.text.slice(0, 500));
  for (const source of ["database", "all"]) {
    const again = await change("POST", "import", { text: await exported(source) }, 4);
    assert.deepEqual([again.status, again.body.isPublished], [200, false], again.text.slice(0, 500));
  }
  const { body } = await api.call(operator, "GET", "/audit?subject=catalogue%20revision%204");
  const [{ before, after }] = body.items;
  assert.deepEqual(before.upstreams, {});
  assert.equal(after.beginning.length, 20_000);
  const { length: characters } = JSON.stringify({ upstreams, models: {}, groups: {}, queues: {} });
  assert.deepEqual({ ...after, beginning: "" }, { isCut: true, characters, beginning: "" });
  const other = text.replaceAll("long-", "other-");
  const tooLong = await change("POST", "import", { text: other, mode: "merge" }, 4);
  assert.match(tooLong.body.detail, /would be longer than 2000000 characters/);
});
