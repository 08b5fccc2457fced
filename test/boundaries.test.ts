/** The allowed imports between folders (ARCHITECTURE.md, "Folders"): a new edge fails here until it is in the table. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import { test } from "node:test";

const root = resolve(import.meta.dirname, "..");

/** The folders that each folder may import besides itself. */
const folders: Record<string, string[]> = {
  "libs/wire": [],
  "libs/dialects": ["libs/wire"],
  "libs/operations": ["libs/wire", "libs/dialects"],
  "libs/ledger": ["libs/service", "libs/dialects"],
  "libs/api": ["libs/access"],
  "libs/catalogue": ["libs/dialects", "libs/access", "libs/ledger"],
  "libs/content": ["libs/service"],
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
  "apps/control": ["libs/api", "libs/catalogue", "libs/content", "libs/access", "libs/ledger", "libs/service"],
  "apps/console": ["libs/api"],
  "apps/simulator": ["libs/service"],
  "apps/cli": ["libs/api", "libs/catalogue", "libs/service", "libs/access"],
};

/** Packages that only some folders may use; all others are free. */
const packages: Record<string, string[]> = {
  bullmq: ["libs/relay/redis"],
  undici: ["apps/worker", "apps/control/alerts", "libs/service"],
  "google-auth-library": ["apps/worker"],
  "@smithy": ["apps/worker"],
  "@aws-sdk": ["apps/worker"],
  "@aws-crypto": ["apps/worker"],
  "gpt-tokenizer": ["libs/operations"],
  fastify: ["libs/service", "apps/ingress", "apps/control"],
  kysely: ["apps/control"],
  pg: ["apps/control"],
  "@electric-sql": ["apps/control"],
  "better-auth": ["apps/control"],
  nodemailer: ["apps/control"],
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
  return specifiers.map((found) => ({ file, specifier: (found[1] ?? found[2] ?? found[3]) as string }));
}

const imports = sources.flatMap(importsOf);

test("every source file belongs to a folder of the table", () => {
  assert.ok(sources.length > 50);
  assert.deepEqual(
    sources.filter((file) => folderOf(file) === undefined),
    [],
  );
});

test("folders import only what the table allows", () => {
  const broken = imports.flatMap(({ file, specifier }) => {
    const from = folderOf(file) as string;
    const target = specifier.startsWith("#")
      ? `libs/${specifier.slice(1)}`
      : specifier.startsWith(".")
        ? relative(root, join(root, dirname(file), specifier)).replaceAll("\\", "/")
        : undefined;
    if (target === undefined) return [];
    const to = folderOf(target);
    return to === from || (to !== undefined && folders[from]?.includes(to)) ? [] : [`${file} imports ${specifier}`];
  });
  assert.deepEqual(broken, []);
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

/** They open the connections to Redis and hand them to the relay; all other code knows its ports. */
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
