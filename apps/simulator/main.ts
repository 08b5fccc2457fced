/**
 * The simulator as a process: a simulated upstream for a first run without a vendor's key, for
 * tests and for benchmarks.
 */
import { readSettings } from "#service/config.ts";
import { warnOfMisspelledVariables } from "#service/misspelled-variables.ts";
import { withSecrets } from "#service/secret-files.ts";
import { listeningAt, runProcess, StartupFault } from "#service/startup.ts";
import { simulatorSettings } from "./config.ts";
import { createSimulator } from "./server.ts";
import { settingsOf, settingValuesIn } from "./settings.ts";

/** How long running answers may continue after a stop; the gateway may still be draining. */
const graceMs = 10_000;

await runProcess("simulator", async (log) => {
  warnOfMisspelledVariables(log, process.env);
  const { host, port, key, defaultsText } = readSettings(simulatorSettings, withSecrets(process.env, "SIMULATOR_KEY"));
  const defaults = settingValuesIn(defaultsText);
  const merged = defaults.kind === "ok" ? settingsOf(defaults.value) : defaults;
  if (merged.kind === "bad" || defaults.kind === "bad")
    throw new StartupFault(`SIMULATOR_DEFAULTS: ${merged.kind === "bad" ? merged.fault : ""}`);
  const simulator = createSimulator({
    host,
    port,
    defaults: defaults.value,
    ...(key && { key }),
  });
  const url = await listeningAt("SIMULATOR_PORT", simulator.listen());
  return { urls: { simulator: url }, stop: () => simulator.close(graceMs) };
});
