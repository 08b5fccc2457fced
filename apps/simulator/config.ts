/** The simulator's settings; settings.ts has those of its answers. */
import { integerSetting, listenSettings, secretSetting, textSetting } from "#service/config.ts";

export const simulatorSettings = {
  host: listenSettings.host,
  port: integerSetting("SIMULATOR_PORT", 0, 0, 65_535, "The simulator's port; 0 takes any free one."),
  key: secretSetting("SIMULATOR_KEY", "The credential that requests must bring; unset, any will do."),
  defaultsText: textSetting(
    "SIMULATOR_DEFAULTS",
    "",
    "Settings of every answer, unless the request says otherwise, such as `rate=50,first=200`.",
    "settings of answers",
  ),
};
