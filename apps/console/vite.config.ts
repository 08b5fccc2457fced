/**
 * How Vite builds the console, and serves it during development beside a control that runs: `npm
 * run dev:console`.
 */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { defineConfig, type Plugin, type UserConfig } from "vite";
import { operations } from "#api/operations.ts";

/** Methods and paths of the operations: all that a browser needs of their table. */
const routes = Object.fromEntries(Object.entries(operations).map(([name, { method, path }]) => [name, [method, path]]));

/**
 * Fails the build if a component of Mantine is used whose styles app/mantine.css does not import.
 */
function checkStyles(): Plugin {
  const styles = dirname(createRequire(import.meta.url).resolve("@mantine/core/styles/global.css"));
  const imported = readFileSync(join(import.meta.dirname, "app/mantine.css"), "utf8");
  return {
    name: "check-styles",
    apply: "build",
    generateBundle(_options, bundle) {
      for (const chunk of Object.values(bundle)) {
        if (chunk.type !== "chunk") continue;
        for (const id of chunk.moduleIds) {
          const [, component] = /@mantine\/core\/.*\/(\w+)\.mjs$/.exec(id) ?? [];
          if (component === undefined || !existsSync(join(styles, `${component}.css`))) continue;
          if (!imported.includes(`/${component}.css`))
            this.error(`app/mantine.css must import "@mantine/core/styles/${component}.css"`);
        }
      }
    },
  };
}

export const viteConfig = {
  root: import.meta.dirname,
  plugins: [checkStyles()],
  define: { operationRoutes: JSON.stringify(routes) },
  build: {
    target: "es2023",
    emptyOutDir: true,
    reportCompressedSize: false,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
  },
  server: { proxy: { "/api": { target: process.env.CONTROL_URL ?? "http://127.0.0.1:8090", ws: true } } },
} satisfies UserConfig;

export default defineConfig(viteConfig);
