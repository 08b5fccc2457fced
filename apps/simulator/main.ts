/** The simulator as a process: a made-up upstream for a first run without any vendor's key, for tests and for benches. */
import { readSettings } from "#service/config.ts";
import { runProcess, StartupFault } from "#service/startup.ts";
import { simulatorSettings } from "./config.ts";
import { createSimulator } from "./server.ts";
import { givenOf, settingsOf } from "./settings.ts";

/** How long answers under way may go on after a stop: the gateway before it may still be draining. */
const graceMs = 10_000;

await runProcess("simulator", async () => {
  const { host, port, key, defaultsText } = readSettings(simulatorSettings, process.env);
  const defaults = givenOf(defaultsText);
  const merged = defaults.kind === "ok" ? settingsOf(defaults.value) : defaults;
  if (merged.kind === "bad" || defaults.kind === "bad")
    throw new StartupFault(`SIMULATOR_DEFAULTS: ${merged.kind === "bad" ? merged.fault : ""}`);
  const simulator = createSimulator({
    host,
    port,
    defaults: defaults.value,
    ...(key && { key }),
  });
  const url = await simulator.listen();
  return { urls: { simulator: url }, stop: () => simulator.close(graceMs) };
});
