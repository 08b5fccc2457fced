/**
 * Credentials that operators store by control's API. They are sealed in control's database and in
 * Redis; only workers, control and those who know CREDENTIALS_SECRET can open them. Upstreams name
 * one as `stored:<name>`, which no environment variable can be called.
 */
import { hkdfSync } from "node:crypto";
import { madeUpSecret, type Setting, secretSetting } from "#service/config.ts";
import { seal, unseal } from "#service/sealing.ts";

const prefix = "stored:";

export const storedNamePattern = "[a-z0-9][a-z0-9._-]{0,39}";

/** The name of a stored credential as upstreams have it. */
export const referenceOf = (name: string): string => `${prefix}${name}`;

/** That of the value before, while both are in use. */
export const previousReferenceOf = (name: string, version: number): string => `${prefix}${name}@${version}`;

export const isStoredReference = (credential: string): boolean => credential.startsWith(prefix);

/** Undefined for an environment variable. */
export const storedNameOf = (credential: string): string | undefined =>
  isStoredReference(credential) ? credential.slice(prefix.length) : undefined;

const variable = "CREDENTIALS_SECRET";

const secret = secretSetting(
  variable,
  "Seals the credentials of upstreams that operators store in the console: control and workers have the same one. Without it, none can be stored. To replace it, put the new one before the old one, with a comma between them; control then seals all credentials anew, and the old one can go.",
  { form: "32 to 512 characters, or several such secrets separated by commas", rotates: true },
);

/** One of the secrets. */
const single = secretSetting(variable, "", { ...madeUpSecret, form: secret.bounds });

/** The secrets; the first one seals, all open. */
export const credentialsSecretSetting: Setting<() => readonly string[]> = {
  ...secret,
  read(environment) {
    const secretsIn = () => (environment[variable] ?? "").split(",").filter((each) => each !== "");
    for (const each of secretsIn()) single.read({ [variable]: each });
    return secretsIn;
  },
};

const keyIdOf = (each: string): string =>
  Buffer.from(hkdfSync("sha256", each, "", "sluice credential key id", 6)).toString("base64url");

const sealingKeyOf = (each: string, name: string) => ({ secret: each, salt: name, purpose: "sluice credential" });

/** `<id of the secret>.<sealed text>`. It opens only under its name. */
export const sealCredential = (secrets: readonly [string, ...string[]], name: string, value: string): string =>
  `${keyIdOf(secrets[0])}.${seal(sealingKeyOf(secrets[0], name), value)}`;

/** Undefined without the secret that sealed it. Never log the result. */
export function openCredential(secrets: readonly string[], name: string, sealed: string): string | undefined {
  const [id, text = ""] = sealed.split(".", 2);
  const own = secrets.find((each) => keyIdOf(each) === id);
  return own === undefined ? undefined : unseal(sealingKeyOf(own, name), text);
}

/** Whether the first secret has sealed it. */
export const isSealedWithFirst = ([first]: readonly string[], sealed: string): boolean =>
  first !== undefined && sealed.startsWith(`${keyIdOf(first)}.`);

interface SealedValue {
  readonly version: number;
  readonly sealed: string;
}

/** The sealed values as workers get them, by name. */
export type PublishedCredentials = Readonly<
  Record<string, SealedValue & { /** In use as well, for a while. */ readonly previous?: SealedValue }>
>;
