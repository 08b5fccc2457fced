/**
 * Reads the environment variables that a catalogue names: in addresses, in `requires` and, in
 * workers only, as credentials.
 */

import { hasCredentials } from "#service/config.ts";
import { isConfigured } from "#service/secret-files.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

const reference = /\$\{([^}]*)\}/g;
const inside = /^([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$/;

/** Replaces `${NAME}` and `${NAME:-default}`. An empty variable counts as unset. */
export function filledIn(
  text: string,
  environment: Environment,
): { kind: "filled"; text: string } | { kind: "faulty"; reason: string } {
  let reason: string | undefined;
  const filled = text.replaceAll(reference, (whole, content: string) => {
    const [, name, fallback] = inside.exec(content) ?? [];
    if (name === undefined) {
      reason ??= `"${whole}" is neither \${NAME} nor \${NAME:-default}`;
      return "";
    }
    const value = environment[name] || fallback;
    if (value === undefined)
      reason ??= `the environment variable ${name} is not set; set it, use a default as in "\${${name}:-http://localhost:8000}", or write "requires: ${name}" to skip this upstream while it is not set`;
    return value ?? "";
  });
  return reason === undefined ? { kind: "filled", text: filled } : { kind: "faulty", reason };
}

/** The variables in a text, with a default or without. */
export const variablesIn = (text: string): string[] => [...defaultsIn(text).keys()];

/** The default of each variable in a text; undefined for one without. */
export const defaultsIn = (text: string): Map<string, string | undefined> =>
  new Map(
    [...text.matchAll(reference)].flatMap(([, content = ""]): [string, string | undefined][] => {
      const [, name, fallback] = inside.exec(content) ?? [];
      return name === undefined ? [] : [[name, fallback]];
    }),
  );

/** Whether a process with this environment offers an upstream. A secret may be in a file. */
export function isOffered({ requires }: { requires?: string | undefined }, environment: Environment): boolean {
  return requires === undefined || isConfigured(requires, environment);
}

/** Parameters of a query that usually have a secret. */
const secretName =
  /(?:key|token|secret|signature|passw(?:or)?d|credentials?|auth(?:orization)?)$|^(?:sig|code|pass|pwd|jwt)$/i;

/**
 * Explains why a text is not a base URL; undefined if it is one. The explanation omits the text,
 * which may contain a password.
 */
export function baseUrlFaultOf(text: string, mayHaveQuery: boolean): string | undefined {
  if (!URL.canParse(text)) return "not a URL; write http://host or https://host, with a path if it needs one";
  const url = new URL(text);
  if (url.protocol !== "http:" && url.protocol !== "https:")
    return `the scheme must be http or https, not ${url.protocol.slice(0, -1)}`;
  if (hasCredentials(url)) return "must not contain a user name or password; use `credential` instead";
  if (url.searchParams.keys().some((name) => secretName.test(name)))
    return "the query must not contain a credential; use `credential` instead";
  if (text.includes("#")) return "must not have a fragment";
  if (text.includes("?") && !mayHaveQuery) return "must not have a query";
  if ((text.split("?", 1)[0] as string).endsWith("/")) return "must not end in a slash";
  return undefined;
}

/** The environment variables of an upstream's credentials. */
export const credentialNamesOf = ({
  credential,
  credentials,
}: {
  credential?: string;
  credentials: readonly string[];
}): string[] => (credential === undefined ? [...credentials] : [credential, ...credentials]);

/** The prompt cache that a credential uses: that of its organisation, or its own by default. */
export const cacheDomainOf = (
  { cacheDomain }: { cacheDomain?: string | Readonly<Record<string, string>> },
  credential: string,
): string => (typeof cacheDomain === "string" ? cacheDomain : (cacheDomain?.[credential] ?? credential));

/**
 * The secret of a credential; undefined when its variable is unset or empty. Never log the result.
 */
export const secretOf = (credential: string | undefined, environment: Environment): string | undefined =>
  (credential !== undefined && environment[credential]) || undefined;
