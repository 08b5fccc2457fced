/** Control's settings. */
import type { Environment } from "#catalogue/environment.ts";
import { integerSetting, proxySettings, readSettings, secretSetting, textSetting } from "#service/config.ts";

export const controlSettings = {
  ...proxySettings,
  host: textSetting(
    "CONTROL_HOST",
    "127.0.0.1",
    "The address of the API and of the console.",
    "a host name or address",
  ),
  port: integerSetting(
    "CONTROL_PORT",
    8090,
    0,
    65_535,
    "The port of the API and of the console; 0 uses any free port.",
  ),
  databaseUrl: secretSetting(
    "DATABASE_URL",
    "The Postgres server (15 or newer), such as postgres://user:password@host/database. Without it, control uses an embedded database.",
  ),
  databaseDirectory: textSetting(
    "DATABASE_DIRECTORY",
    ".sluice/database",
    "The directory of the embedded database. Only one control process may use it.",
    "a path",
  ),
  usageDays: integerSetting(
    "USAGE_DAYS",
    400,
    1,
    3_650,
    "How many days usage records are kept. Their totals by half hour are kept for ever.",
  ),
  operatorToken: secretSetting(
    "OPERATOR_TOKEN",
    "A token with all rights of an operator, for the command line and for the first steps. At least 32 characters. Without it, the API accepts only tokens and people of its database.",
  ),
};

export type ControlConfig = ReturnType<typeof controlConfigOf>;

export const controlConfigOf = (environment: Environment) => readSettings(controlSettings, environment);
