/**
 * Fails a process that runs on after its last test because something was left open, and names it.
 * Without it the run would wait for this process for ever.
 */
import { after } from "node:test";

/** How long sockets, timers and child processes may take to close after the last test. */
const closingMsMax = 20_000;

after(() => {
  setTimeout(() => {
    const open = process.getActiveResourcesInfo().filter((name) => name !== "Timeout");
    console.error(`${process.argv[1]}: still open after the last test: ${open.join(", ") || "timers"}`);
    process.exit(1);
  }, closingMsMax).unref();
});
