/** The rules of who may import whom (ARCHITECTURE.md, "Borders"): a new edge fails here until it is put into the table. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import { test } from "node:test";

const root = resolve(import.meta.dirname, "..");

/** What each room may import besides itself. */
const rooms: Record<string, string[]> = {
  "libs/dialects": [],
  "libs/catalogue": ["libs/dialects"],
  "libs/service": [],
  "libs/events": ["libs/dialects"],
  "libs/access": ["libs/service"],
  "libs/relay": ["libs/service", "libs/dialects"],
  "apps/ingress": ["libs/dialects", "libs/events", "libs/catalogue", "libs/service", "libs/access", "libs/relay"],
  "apps/worker": ["libs/dialects", "libs/events", "libs/catalogue", "libs/service", "libs/relay"],
  "apps/simulator": ["libs/service"],
  "apps/cli": ["libs/catalogue", "libs/service", "libs/access"],
};

/** Packages that only some rooms may use: all others are free. */
const packages: Record<string, string[]> = {
  bullmq: ["libs/relay"],
  undici: ["apps/worker"],
  "google-auth-library": ["apps/worker"],
  "@smithy": ["apps/worker"],
  "@aws-sdk": ["apps/worker"],
  "@aws-crypto": ["apps/worker"],
  "gpt-tokenizer": ["apps/worker"],
  fastify: ["libs/service", "apps/ingress"],
  ioredis: ["libs/service", "libs/relay", "libs/access", "apps/ingress", "apps/worker", "apps/cli"],
  yaml: ["libs/catalogue"],
};

const roomOf = (file: string) => Object.keys(rooms).find((room) => file.startsWith(`${room}/`));
const sources = globSync("{apps,libs}/**/*.{ts,js}", { cwd: root });

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

test("every source file belongs to a room", () => {
  assert.ok(sources.length > 50);
  assert.deepEqual(
    sources.filter((file) => roomOf(file) === undefined),
    [],
  );
});

test("rooms import only what the table allows", () => {
  const broken = imports.flatMap(({ file, specifier }) => {
    const from = roomOf(file) as string;
    const target = specifier.startsWith("#")
      ? `libs/${specifier.slice(1)}`
      : specifier.startsWith(".")
        ? relative(root, join(root, dirname(file), specifier)).replaceAll("\\", "/")
        : undefined;
    if (target === undefined) return [];
    const to = roomOf(target);
    return to === from || (to !== undefined && rooms[from]?.includes(to)) ? [] : [`${file} imports ${specifier}`];
  });
  assert.deepEqual(broken, []);
});

test("a border is crossed with # and never with a relative path", () => {
  const crossing = imports.filter(
    ({ file, specifier }) => specifier.startsWith(".") && roomOf(join(dirname(file), specifier)) !== roomOf(file),
  );
  assert.deepEqual(crossing, []);
});

test("packages are used only in the rooms that own them", () => {
  const stray = imports.filter(({ file, specifier }) => {
    const owners = packages[specifier.split("/", 1)[0] as string];
    return owners !== undefined && !owners.includes(roomOf(file) as string);
  });
  assert.deepEqual(stray, []);
});

test("Node's own modules are named with node:", () => {
  assert.deepEqual(
    imports.filter(({ specifier }) => builtinModules.includes(specifier.split("/", 1)[0] as string)),
    [],
  );
});
