/** The simulator as a process: a made-up upstream for a first run without any vendor's key, for tests and for benches. */
import { integerOf } from "#service/config.ts";
import { runProcess, StartupFault } from "#service/startup.ts";
import { createSimulator } from "./server.ts";
import { givenOf, settingsOf } from "./settings.ts";

/** How long answers under way may go on after a stop: the gateway before it may still be draining. */
const graceMs = 10_000;

await runProcess("simulator", async () => {
  const { SIMULATOR_KEY: key, SIMULATOR_DEFAULTS: defaultsText = "", HOST: host } = process.env;
  const defaults = givenOf(defaultsText);
  const merged = defaults.kind === "ok" ? settingsOf(defaults.value) : defaults;
  if (merged.kind === "bad" || defaults.kind === "bad") throw new StartupFault(`SIMULATOR_DEFAULTS: ${merged.kind === "bad" ? merged.fault : ""}`);
  const simulator = createSimulator({
    host: host || "127.0.0.1",
    port: integerOf(process.env, "SIMULATOR_PORT", 0, 0, 65_535),
    defaults: defaults.value,
    ...(key && { key }),
  });
  const url = await simulator.listen();
  return { urls: { simulator: url }, stop: () => simulator.close(graceMs) };
});
