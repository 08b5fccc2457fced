/** How Vite builds the console, and serves it during development beside a control that runs: `npm run dev:console`. */
import { defineConfig, type UserConfig } from "vite";
import { operations } from "#api/operations.ts";

/** Methods and paths of the operations: all that a browser needs of their table. */
const routes = Object.fromEntries(Object.entries(operations).map(([name, { method, path }]) => [name, [method, path]]));

export const viteConfig = {
  root: import.meta.dirname,
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
