#!/usr/bin/env node
/**
 * The way in: `npm start`, `npm test` and `npx sluice`. Plain JavaScript without dependencies, for it runs on whatever Node the machine has.
 * This file only looks at that Node, in words that any version since 14 can read; set-up.js does the rest.
 */
const major = Number(process.versions.node.split(".")[0]);
if (major < 18) {
  process.stderr.write(
    `sluice: Node ${process.versions.node} is too old to set up with; install Node 18 or newer (the gateway itself brings its own)\n`,
  );
  process.exitCode = 1;
} else {
  import("./set-up.js").then(({ boot }) => boot(process.argv.slice(2)));
}
