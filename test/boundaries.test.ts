/**
 * The allowed imports between folders (ARCHITECTURE.md, "Folders"): a new edge fails here until it
 * is in the table.
 */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { dirname, join, resolve } from "node:path";
import { test } from "node:test";

const root = resolve(import.meta.dirname, "..");

/** The folders that each folder may import besides itself. */
const folders: Record<string, string[]> = {
  "libs/wire": [],
  "libs/dialects": ["libs/wire"],
  "libs/operations": ["libs/wire", "libs/dialects"],
  "libs/ledger": ["libs/service", "libs/dialects"],
  "libs/api": ["libs/access", "libs/catalogue"],
  "libs/catalogue": ["libs/dialects", "libs/service", "libs/access", "libs/ledger"],
  "libs/content": ["libs/service"],
  "libs/objects": [],
  "libs/service": [],
  "libs/events": ["libs/dialects", "libs/operations", "libs/ledger", "libs/tracing"],
  "libs/tracing": ["libs/service", "libs/dialects", "libs/operations"],
  "libs/access": ["libs/service", "libs/ledger"],
  "libs/relay": ["libs/service", "libs/dialects", "libs/operations"],
  "apps/ingress": [
    "libs/wire",
    "libs/content",
    "libs/dialects",
    "libs/operations",
    "libs/events",
    "libs/catalogue",
    "libs/service",
    "libs/access",
    "libs/ledger",
    "libs/relay",
    "libs/tracing",
  ],
  "apps/worker": [
    "libs/wire",
    "libs/dialects",
    "libs/operations",
    "libs/events",
    "libs/catalogue",
    "libs/ledger",
    "libs/service",
    "libs/relay",
    "libs/tracing",
  ],
  "apps/control": [
    "libs/wire",
    "libs/api",
    "libs/catalogue",
    "libs/content",
    "libs/dialects",
    "libs/access",
    "libs/ledger",
    "libs/objects",
    "libs/service",
    "libs/wire",
  ],
  "apps/console": ["libs/api"],
  "apps/simulator": ["libs/service"],
  "apps/cli": ["libs/api", "libs/catalogue", "libs/service", "libs/access"],
};

/**
 * The floors of apps, from the bottom up: a file imports from its own folder and from those below
 * it. Files outside of the folders compose all of them. Each line is one floor; its folders do not
 * import each other.
 */
const floors: Record<string, string[][]> = {
  "apps/ingress": [
    ["common"],
    ["server"],
    ["request"],
    ["response"],
    ["admission"],
    ["content"],
    ["generation", "observability"],
    ["idempotency", "stored"],
    ["background"],
    ["routes"],
    ["websocket"],
  ],
};

/** Packages that only some folders may use; all others are free. */
const packages: Record<string, string[]> = {
  bullmq: ["libs/relay/redis"],
  undici: ["apps/worker", "apps/control/alerts", "apps/control/webhooks", "apps/control/batches", "libs/service"],
  "google-auth-library": ["apps/worker"],
  "@smithy": ["apps/worker"],
  "@aws-sdk": ["apps/worker", "libs/objects"],
  "@aws-crypto": ["apps/worker"],
  "gpt-tokenizer": ["libs/operations"],
  fastify: ["libs/service", "apps/ingress", "apps/control"],
  kysely: ["apps/control"],
  pg: ["apps/control"],
  "@electric-sql": ["apps/control"],
  "better-auth": ["apps/control"],
  nodemailer: ["apps/control"],
  standardwebhooks: ["apps/control/webhooks"],
  "@scalar": ["apps/control"],
  ioredis: ["libs/service"],
  "@opentelemetry": ["libs/tracing"],
  react: ["apps/console"],
  "@mantine": ["apps/console"],
  "@tanstack": ["apps/console"],
  uplot: ["apps/console"],
  uqr: ["apps/console"],
  vite: ["apps/console"],
  yaml: ["libs/catalogue"],
};

const folderOf = (file: string) => Object.keys(folders).find((folder) => file.startsWith(`${folder}/`));
const sources = globSync("{apps,libs}/**/*.{ts,tsx,js}", { cwd: root });

interface Import {
  file: string;
  specifier: string;
}

function importsOf(file: string): Import[] {
  const text = readFileSync(join(root, file), "utf8");
  const specifiers = [
    ...text.matchAll(/^\s*(?:import|export)\s[^;]*?from\s+"([^"]+)"|^\s*import\s+"([^"]+)"|\bimport\("([^"]+)"\)/gm),
  ];
  return specifiers.map((match) => ({ file, specifier: (match[1] ?? match[2] ?? match[3]) as string }));
}

const imports = sources.flatMap(importsOf);

/** The file that an import names; undefined for a package. */
function targetOf({ file, specifier }: Import): string | undefined {
  if (specifier.startsWith("#")) return `libs/${specifier.slice(1)}`;
  return specifier.startsWith(".") ? join(dirname(file), specifier) : undefined;
}

test("every source file belongs to a folder of the table", () => {
  assert.ok(sources.length > 50);
  assert.deepEqual(
    sources.filter((file) => folderOf(file) === undefined),
    [],
  );
});

test("folders import only what the table allows", () => {
  const broken = imports.filter((one) => {
    const from = folderOf(one.file) as string;
    const target = targetOf(one);
    const to = target && folderOf(target);
    return target !== undefined && to !== from && (to === undefined || !folders[from]?.includes(to));
  });
  assert.deepEqual(broken, []);
});

test("imports inside an app go down", () => {
  for (const [app, rows] of Object.entries(floors)) {
    const nameOf = (file: string) => file.slice(app.length + 1).split("/", 1)[0] as string;
    /** Files of the app itself are above all floors. */
    const floorOf = (file: string) =>
      file.split("/").length === 3 ? rows.length : rows.findIndex((row) => row.includes(nameOf(file)));
    const files = sources.filter((file) => file.startsWith(`${app}/`));
    assert.deepEqual(
      files.filter((file) => floorOf(file) < 0),
      [],
      "every folder has a floor",
    );
    const upward = imports.filter((one) => {
      const target = targetOf(one);
      if (!files.includes(one.file) || target === undefined || !target.startsWith(`${app}/`)) return false;
      return (
        nameOf(target) !== nameOf(one.file) && floorOf(target) >= floorOf(one.file) && floorOf(one.file) < rows.length
      );
    });
    assert.deepEqual(upward, []);
  }
});

const throwing = [
  // The helper by which the edge throws.
  "apps/ingress/common/refusal.ts",
  // Its refusals are deep in a translation, whose entry returns them as values.
  "apps/ingress/request/interactions.ts",
];

test("in the ingress only the server, the routes and the sockets throw refusals", () => {
  const inside = floors["apps/ingress"]?.flat().filter((name) => !["server", "routes", "websocket"].includes(name));
  const files = sources.filter(
    (file) =>
      inside?.some((name) => file.startsWith(`apps/ingress/${name}/`)) &&
      // Errors are thrown, and thrown on, but no value that may be a refusal.
      /\bthrow (?!error;|new (?!Refusal\b))|\bvalueOrThrow\b(?!<)/.test(readFileSync(join(root, file), "utf8")),
  );
  assert.deepEqual(files.sort(), throwing);
});

test("where requests pass, no function literal is assigned to a property", () => {
  // V8 allocates such a function in the old generation, where it keeps what it captures for long:
  // see libs/service/young-commands.ts.
  const literal = /^\s*[\w.]+\.#?\w+ (?:\?\?|\|\|)?=\s+(?:async )?(?:function\b|\w+ =>|\([^()]*\)(?:: [^=]+)? =>)/m;
  assert.match("  this.#reject = (error) => {", literal);
  const files = sources.filter(
    (file) => /^(?:apps\/(?:ingress|worker)|libs)\//.test(file) && literal.test(readFileSync(join(root, file), "utf8")),
  );
  // Once in a process.
  assert.deepEqual(files.sort(), ["apps/worker/routing/circuit-breakers.ts", "libs/service/young-commands.ts"]);
});

/** Files that import each other, by way of others; the list of each circle is sorted. */
function circlesIn(edges: ReadonlyMap<string, readonly string[]>): string[][] {
  // Tarjan's strongly connected components: https://doi.org/10.1137/0201010
  const circles: string[][] = [];
  const indexes = new Map<string, number>();
  const path: string[] = [];
  /** The lowest index on the path that can be reached from this file. */
  const visit = (file: string): number => {
    const index = indexes.size;
    indexes.set(file, index);
    path.push(file);
    let lowest = index;
    for (const target of edges.get(file) ?? []) {
      if (!indexes.has(target)) lowest = Math.min(lowest, visit(target));
      else if (path.includes(target)) lowest = Math.min(lowest, indexes.get(target) as number);
    }
    if (lowest < index) return lowest;
    const circle = path.splice(path.indexOf(file));
    if (circle.length > 1 || edges.get(file)?.includes(file)) circles.push(circle.toSorted());
    return lowest;
  };
  for (const file of edges.keys()) if (!indexes.has(file)) visit(file);
  return circles.sort((one, other) => String(one[0]).localeCompare(String(other[0])));
}

test("no files import each other, not even their types", () => {
  const edges = Map.groupBy(imports, ({ file }) => file);
  const circles = circlesIn(
    new Map([...edges].map(([file, list]) => [file, list.flatMap((one) => targetOf(one) ?? [])])),
  );
  assert.deepEqual(circles, []);
});

test("a circle of imports is found", () => {
  const edges = new Map([
    ["a", ["b"]],
    ["b", ["c", "d"]],
    ["c", ["a"]],
    ["d", []],
    ["e", ["e"]],
  ]);
  assert.deepEqual(circlesIn(edges), [["a", "b", "c"], ["e"]]);
});

test("an import across folders uses # and never a relative path", () => {
  const crossing = imports.filter(
    ({ file, specifier }) => specifier.startsWith(".") && folderOf(join(dirname(file), specifier)) !== folderOf(file),
  );
  assert.deepEqual(crossing, []);
});

test("packages are used only in the folders that own them", () => {
  const stray = imports.filter(({ file, specifier }) => {
    const owners = packages[specifier.split("/", 1)[0] as string];
    return owners !== undefined && !owners.some((owner) => file.startsWith(`${owner}/`));
  });
  assert.deepEqual(stray, []);
});

/**
 * They open the connections to Redis and hand them to the relay; all other code knows its ports.
 */
const compositions = ["apps/ingress/backends.ts", "apps/worker/redis.ts"];

test("only the compositions import the relay's implementation with Redis and BullMQ", () => {
  const leaks = imports.filter(
    ({ file, specifier }) => specifier.startsWith("#relay/redis/") && !compositions.includes(file),
  );
  assert.deepEqual(leaks, []);
});

test("Node's own modules are imported with node:", () => {
  assert.deepEqual(
    imports.filter(({ specifier }) => builtinModules.includes(specifier.split("/", 1)[0] as string)),
    [],
  );
});
