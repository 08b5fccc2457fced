/**
 * The settings of the installation: a variable of the environment wins, then the stored value,
 * then the default. All control processes share the stored settings; each compares their version
 * every few seconds.
 */

import { isDeepStrictEqual } from "node:util";
import type { Logger } from "pino";
import type { AnswerOf, InputOf } from "#api/operation.ts";
import type { settingsOperations } from "#api/settings.ts";
import { hasCredentials, readSettings } from "#service/config.ts";
import { hasMetadataHost } from "#service/networks.ts";
import { PeriodicTask } from "#service/periodic-task.ts";
import { seal, unseal } from "#service/sealing.ts";
import { checkVersion } from "../accounts/accounts.ts";
import { refuseNarrowToken } from "../accounts/operator-tokens.ts";
import { Fault } from "../api/faults.ts";
import type { Answered, Context } from "../api/handlers.ts";
import { settingsEveryMs } from "../bounds.ts";
import { type InstallationValues, installationSettings } from "../config.ts";
import { transact } from "../database/change.ts";
import type { Database } from "../database/database.ts";
import { isIssuer } from "../sign-in/oidc.ts";
import { type Logo, logoOf, storedLogoOf } from "./logo.ts";

type Name = keyof InstallationValues;
type Body = AnswerOf<(typeof settingsOperations)["readSettings"]>;
type Change = InputOf<(typeof settingsOperations)["updateSettings"]>["body"];
type Environment = Record<string, string | undefined>;

/** The settings in force. */
export interface Installation extends InstallationValues {
  logo: Logo | null;
}

export interface SettingsOptions {
  database: Database;
  /** Its secrets may change. */
  environment: Environment;
  /** Encrypts what is secret: AUTH_SECRET, or the one of the database. */
  secret: string;
  log: Logger;
}

/** Secret settings are never shown; each has a function for the part that may be. */
const secrets: Partial<Record<Name, (value: string) => string | null>> = {
  smtpUrl: (value) => {
    const { protocol, username, host } = new URL(value);
    return `${protocol}//${username === "" ? "" : `${username}@`}${host}`;
  },
  alertWebhookUrl: (value) => `${new URL(value).origin}/…`,
  alertWebhookSecret: () => null,
  oidcClientSecret: () => null,
};
const names = Object.keys(installationSettings) as Name[];
/** Whoever sets these may give roles. */
const oidcNames = names.filter((name) => name.startsWith("oidc"));
const isSecret = (name: Name): boolean => Object.hasOwn(secrets, name);
/** Addresses must be more than their pattern says; only that of a mail server has credentials. */
const addresses: readonly Name[] = ["gatewayUrl", "smtpUrl", "alertWebhookUrl", "oidcIssuer"];

interface Row {
  version: number;
  stored: Record<string, unknown>;
  sealed: Record<string, string>;
  logo: { type: string; data: string } | null;
}

const nothing: Row = { version: 0, stored: {}, sealed: {}, logo: null };

export class Settings {
  readonly #options: SettingsOptions;
  /** The settings that the environment sets. */
  readonly #fixed: ReadonlySet<Name>;
  #initial: InstallationValues;
  #task: PeriodicTask | undefined;
  #row = nothing;
  #current: Installation;

  /** Throws a StartupFault for a variable that is not valid. */
  constructor(options: SettingsOptions) {
    const { environment } = options;
    this.#options = options;
    this.#fixed = new Set(names.filter((name) => environment[installationSettings[name].variable]));
    this.#initial = readSettings(installationSettings, environment);
    this.#current = { ...this.#initial, logo: null };
  }

  /** Reads what is stored, and follows its changes. Rejects if the database does not answer. */
  async start(): Promise<void> {
    await this.#read();
    this.#task = new PeriodicTask({
      everyMs: settingsEveryMs,
      run: () => this.#read(),
      log: this.#options.log,
      level: "warn",
      failed: "changes of settings are not noticed",
      works: "changes of settings are noticed again",
    });
  }

  close(): void {
    this.#task?.close();
  }

  /** The settings in force now. */
  readonly current = (): Installation => this.#current;

  /** Whether the environment sets it. */
  isFixed(name: Name): boolean {
    return this.#fixed.has(name);
  }

  /** The answer for operators, with its version. */
  get answer(): Answered<Body> {
    return { body: this.#described(this.#row, this.#current), version: this.#row.version };
  }

  /** Throws a Fault for a value that is not valid, and for a setting of the environment. */
  async change(change: Change, context: Context): Promise<Answered<Body>> {
    this.#check(change);
    if (oidcNames.some((name) => change[name] !== undefined)) refuseNarrowToken(context.actor);
    await transact(context, "updateSettings", async (inside) => {
      await inside.database
        .insertInto("settings")
        .values({ id: 1, version: 0, stored: "{}", sealed: "{}", logo: null })
        .onConflict((conflict) => conflict.doNothing())
        .execute();
      const before = await inside.database.selectFrom("settings").selectAll().forUpdate().executeTakeFirstOrThrow();
      checkVersion(before.version, context);
      this.#checkSecret(change, this.#inForce(before));
      if (Object.keys(change).length === 0) return;
      const after = this.#changed(before, change);
      await inside.database
        .updateTable("settings")
        .set({
          version: after.version,
          stored: JSON.stringify(after.stored),
          sealed: JSON.stringify(after.sealed),
          logo: after.logo && JSON.stringify(after.logo),
        })
        .execute();
      await inside.record({
        subject: "settings",
        before: this.#recorded(before, change),
        after: this.#recorded(after, change),
      });
    });
    await this.#read();
    return this.answer;
  }

  /** The settings in force with these changes, which are not stored. Throws a Fault. */
  proposed(change: Change): InstallationValues {
    this.#check(change);
    this.#checkSecret(change, this.#current);
    const values = Object.entries(change).map(([name, value]) => [name, value ?? this.#initial[name as Name]]);
    return { ...this.#current, ...Object.fromEntries(values) };
  }

  #check(change: Change): void {
    for (const name of names) {
      const value = change[name];
      if (value === undefined) continue;
      const { variable } = installationSettings[name];
      if (this.isFixed(name))
        throw new Fault("invalid", `${variable} sets ${name}; change the variable, or remove it.`, { field: name });
      if (!addresses.includes(name) || value === null || value === "") continue;
      const address = String(value);
      if (!URL.canParse(address)) throw new Fault("invalid", `${name} is not an address.`, { field: name });
      if (name !== "smtpUrl" && hasCredentials(new URL(address)))
        throw new Fault("invalid", `${name} must not contain a user name or a password.`, { field: name });
      if (name === "oidcIssuer" && hasMetadataHost(address))
        throw new Fault("invalid", `${name} is a link-local address.`, { field: name });
    }
  }

  /** A provider gets no secret that was entered for another one. */
  #checkSecret({ oidcIssuer, oidcClientSecret }: Change, present: InstallationValues): void {
    if (oidcIssuer === undefined || oidcClientSecret !== undefined) return;
    const issuer = oidcIssuer ?? this.#initial.oidcIssuer;
    if (present.oidcClientSecret === undefined || present.oidcIssuer === "" || isIssuer(issuer, present.oidcIssuer))
      return;
    const detail = this.isFixed("oidcClientSecret")
      ? "OIDC_CLIENT_SECRET is set for the present issuer; set OIDC_ISSUER with it."
      : "The client secret is the one for the present issuer; enter the one for the new issuer with it, or remove it.";
    throw new Fault("invalid", detail, { field: "oidcClientSecret" });
  }

  #changed(before: Row, { logo, ...change }: Change): Row {
    const stored = { ...before.stored };
    const sealed = { ...before.sealed };
    for (const [name, value] of Object.entries(change)) {
      const into: Record<string, unknown> = isSecret(name as Name) ? sealed : stored;
      if (value === null) delete into[name];
      else into[name] = isSecret(name as Name) ? seal(this.#keyOf(name), String(value)) : value;
    }
    const nextLogo = logo === undefined ? before.logo : logo === null ? null : storedLogoOf(logo);
    return { version: before.version + 1, stored, sealed, logo: nextLogo };
  }

  /** The changed settings for the audit log: of secrets only whether they are set. */
  #recorded({ stored, sealed, logo }: Row, change: Change): Record<string, unknown> {
    return Object.fromEntries(
      Object.keys(change).map((name) => {
        if (name === "logo") return [name, logo && logoOf(logo).address];
        return [name, isSecret(name as Name) ? { isSet: sealed[name] !== undefined } : (stored[name] ?? null)];
      }),
    );
  }

  async #read(): Promise<void> {
    const { database, environment } = this.#options;
    // Its secrets follow their files.
    const initial = readSettings(installationSettings, environment);
    if (!isDeepStrictEqual(initial, this.#initial)) {
      this.#initial = initial;
      this.#current = this.#inForce(this.#row);
    }
    const stored = await database.selectFrom("settings").select("version").executeTakeFirst();
    if ((stored?.version ?? 0) === this.#row.version) return;
    const row = (await database.selectFrom("settings").selectAll().executeTakeFirst()) ?? nothing;
    // A slow read of an older row changes nothing.
    if (row.version <= this.#row.version) return;
    this.#current = this.#inForce(row);
    this.#row = row;
  }

  #inForce({ stored, sealed, logo }: Row): Installation {
    const values: Record<string, unknown> = { ...this.#initial };
    for (const name of names) {
      if (this.isFixed(name)) continue;
      const value = sealed[name] === undefined ? stored[name] : this.#unsealed(name, sealed[name]);
      if (value !== undefined) values[name] = value;
    }
    return { ...(values as Partial<InstallationValues> as InstallationValues), logo: logo && logoOf(logo) };
  }

  /** Undefined if it was sealed with another AUTH_SECRET: it then counts as not set. */
  #unsealed(name: Name, sealed: string): string | undefined {
    const text = unseal(this.#keyOf(name), sealed);
    if (text === undefined)
      this.#options.log.warn(
        { setting: name },
        "a stored secret cannot be read: AUTH_SECRET is another one; set it again",
      );
    return text;
  }

  #keyOf = (name: string) => ({ secret: this.#options.secret, salt: name, purpose: "sluice setting" });

  #described({ stored, sealed }: Row, { logo, ...current }: Installation): Body {
    const described = names.map((name) => {
      const value = current[name];
      const isStored = isSecret(name) ? sealed[name] !== undefined && value !== undefined : stored[name] !== undefined;
      const source = this.isFixed(name) ? "environment" : isStored ? "stored" : "default";
      const shown = isSecret(name)
        ? { isSet: value !== undefined, shown: value === undefined ? null : secrets[name]?.(String(value)) }
        : { value };
      return [name, { ...shown, source, variable: installationSettings[name].variable }];
    });
    return {
      ...Object.fromEntries(described),
      logo: logo && { address: logo.address, type: logo.type, bytes: logo.bytes.length },
    } as Body;
  }
}
