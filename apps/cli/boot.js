#!/usr/bin/env node
/**
 * The entry point of `npm start`, `npm test` and `npx sluice`. Plain JavaScript without
 * dependencies, because it runs on any Node that the machine has. This file only checks that Node,
 * in syntax that Node 14 can parse. set-up.js does the rest.
 */
const major = Number(process.versions.node.split(".")[0]);
if (major < 18) {
  process.stderr.write(
    `sluice: Node ${process.versions.node} is too old; install Node 18 or newer (it then installs the Node version that the gateway runs on)\n`,
  );
  process.exitCode = 1;
} else {
  import("./set-up.js").then(({ boot }) => boot(process.argv.slice(2)));
}
