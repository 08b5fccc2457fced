/**
 * Databases that take seconds to make: each is made once for a version of its program and of
 * control's tables, and then copied.
 */
import { createHash } from "node:crypto";
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..", "..");

export interface Cache {
  /** The directory that `make` has filled, now or earlier. */
  of(make: (directory: string) => Promise<void>): Promise<string>;
}

/** `version` is called once. */
export function cacheFor(name: string, version: () => string): Cache {
  let path: string | undefined;
  const pathOf = () => {
    const hash = createHash("sha256").update(version());
    for (const source of globSync("apps/control/database/**/*.ts", { cwd: root }).toSorted())
      hash.update(readFileSync(join(root, source)));
    return join(root, "node_modules", ".cache", name, hash.digest("hex").slice(0, 16));
  };
  return {
    async of(make) {
      path ??= pathOf();
      if (existsSync(path)) return path;
      mkdirSync(join(path, ".."), { recursive: true });
      const making = mkdtempSync(`${path}-`);
      await make(making);
      try {
        renameSync(making, path);
      } catch (error) {
        // Another process did the same at the same time, and was first.
        if (!existsSync(path)) throw error;
        rmSync(making, { recursive: true, force: true });
      }
      return path;
    },
  };
}
