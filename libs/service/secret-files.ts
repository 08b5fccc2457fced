/**
 * Secrets in files, as Docker and Kubernetes mount them: `NAME_FILE` names the file that has the
 * value of the variable `NAME`. Values are in no log and in no fault.
 */
import type { Logger } from "pino";
import type { Settings } from "./config.ts";
import { type FileReading, followFile, readBoundedSync } from "./followed-file.ts";
import { StartupFault } from "./startup.ts";

type Environment = Record<string, string | undefined>;

/** More than any key file of a vendor. */
const fileBytesMax = 64 * 1024;
/** A changed file is in force within three periods. */
const periodMs = 1_000;

/** The variable that names the file of a secret. */
export const fileVariableOf = (variable: string): string => `${variable}_FILE`;

/** Whether a secret has a value, or a file that should have one. */
export const isConfigured = (variable: string, environment: Environment): boolean =>
  Boolean(environment[variable] || environment[fileVariableOf(variable)]);

/** A sentence if a variable and its file are both set; undefined otherwise. */
export function ambiguityOf(variable: string, environment: Environment): string | undefined {
  const fileVariable = fileVariableOf(variable);
  return environment[variable] && environment[fileVariable]
    ? `${variable} and ${fileVariable} are both set; remove one of them`
    : undefined;
}

/**
 * An environment with the values of these variables, also of those in files. Throws StartupFault.
 */
export function withSecrets(environment: Environment, ...variables: readonly string[]): Environment {
  const resolved = { ...environment };
  for (const variable of variables) {
    const ambiguity = ambiguityOf(variable, environment);
    if (ambiguity !== undefined) throw new StartupFault(ambiguity);
    const fileVariable = fileVariableOf(variable);
    const file = environment[fileVariable];
    if (!file) continue;
    const value = valueIn(readBoundedSync(file, fileBytesMax), file);
    if (value.kind === "unusable") throw new StartupFault(`${fileVariable}: ${value.reason}`);
    delete resolved[fileVariable];
    resolved[variable] = value.text;
  }
  return resolved;
}

/** An environment that has the secrets of files under the names of their variables. */
export class SecretFiles {
  /** Changes while a followed file changes. */
  readonly environment: Environment;
  readonly #files: Environment;
  /** The functions that end the following, by the variable. */
  readonly #followed = new Map<string, () => void>();

  /**
   * Reads the files of the secrets among these settings. Throws StartupFault for a file without a
   * value, and for a variable that is set as well.
   */
  constructor(environment: Environment, ...tables: readonly Settings[]) {
    this.#files = environment;
    const settings = tables.flatMap((table) => Object.values(table));
    const secrets = settings.filter(({ secret }) => secret !== undefined).map(({ variable }) => variable);
    this.environment = withSecrets(environment, ...secrets);
  }

  /** Follows the files of the settings that rotate. A value that a setting refuses is not used. */
  followSettings(table: Settings, log: Logger): void {
    for (const setting of Object.values(table))
      if (setting.secret === "rotates") {
        const check = (value: string) => void setting.read({ [setting.variable]: value });
        this.#follow(setting.variable, { log, check });
      }
  }

  /**
   * Follows the files of exactly these variables, which need not be settings. Their first values
   * are read at once; a file without one is reported. `onChange` gets the variable of each later
   * change.
   */
  followOnly(variables: ReadonlySet<string>, log: Logger, onChange: (variable: string) => void): void {
    for (const [variable, stop] of this.#followed)
      if (!variables.has(variable)) {
        stop();
        this.#followed.delete(variable);
        delete this.environment[variable];
      }
    for (const variable of variables) this.#follow(variable, { log, onChange });
  }

  close(): void {
    for (const stop of this.#followed.values()) stop();
    this.#followed.clear();
  }

  #follow(
    variable: string,
    { log, check, onChange }: { log: Logger; check?(value: string): void; onChange?(variable: string): void },
  ): void {
    const file = this.#files[fileVariableOf(variable)];
    if (!file || this.#followed.has(variable)) return;
    let fault: string | undefined;
    const apply = (reading: FileReading) => {
      const value = checkedValueIn(reading, file, check);
      if (value.kind === "unusable") {
        if (value.reason !== fault)
          log.warn(
            { variable, reason: value.reason },
            `the file of a secret has no usable value; ${this.environment[variable] ? "the last one stays" : "there is none"}`,
          );
        fault = value.reason;
        return false;
      }
      if (fault !== undefined) log.info({ variable }, "the file of a secret has a value again");
      fault = undefined;
      if (this.environment[variable] === value.text) return false;
      this.environment[variable] = value.text;
      return true;
    };
    if (!this.environment[variable]) apply(readBoundedSync(file, fileBytesMax));
    const onReading = (reading: FileReading) => {
      if (!apply(reading)) return;
      log.info({ variable }, "a secret was read anew from its file");
      onChange?.(variable);
    };
    this.#followed.set(variable, followFile(file, { bytesMax: fileBytesMax, everyMs: periodMs, onReading }));
  }
}

type SecretValue = { kind: "value"; text: string } | { kind: "unusable"; reason: string };

/** The text of the file without the line breaks at its end. */
function valueIn(reading: FileReading, file: string): SecretValue {
  if (reading.kind === "unreadable") return { kind: "unusable", reason: reading.reason };
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(reading.bytes).replace(/[\r\n]+$/, "");
    return text.trim() === "" ? { kind: "unusable", reason: `${file}: empty` } : { kind: "value", text };
  } catch {
    return { kind: "unusable", reason: `${file}: not UTF-8 text` };
  }
}

function checkedValueIn(reading: FileReading, file: string, check?: (value: string) => void): SecretValue {
  const value = valueIn(reading, file);
  if (value.kind === "unusable") return value;
  try {
    check?.(value.text);
    return value;
  } catch (error) {
    return { kind: "unusable", reason: `${file}: ${(error as Error).message}` };
  }
}
