/** Sign-in by an OpenID Connect provider: https://openid.net/specs/openid-connect-core-1_0.html */
import { genericOAuth } from "better-auth/plugins";
import type { InstallationValues } from "../config.ts";
import { type Mapping, mappingOf } from "./oidc-mapping.ts";

export interface OidcOptions {
  issuer: string;
  clientId: string;
  clientSecret: string | undefined;
  /** The names of the claims with a person's address, name and groups. */
  claims: { email: string; name: string; groups: string };
  /** The groups whose members may sign in; empty for everybody. */
  groups: readonly string[];
  mapping: Mapping;
}

export type Claims = Record<string, unknown>;

export type OidcValues = Pick<
  InstallationValues,
  | "oidcIssuer"
  | "oidcClientId"
  | "oidcClientSecret"
  | "oidcEmailClaim"
  | "oidcNameClaim"
  | "oidcGroupsClaim"
  | "oidcGroups"
  | "oidcMapping"
>;

/** Undefined without a provider. */
export function oidcOptionsOf(values: OidcValues): OidcOptions | undefined {
  if (values.oidcIssuer === "" || values.oidcClientId === "") return undefined;
  return {
    issuer: values.oidcIssuer,
    clientId: values.oidcClientId,
    clientSecret: values.oidcClientSecret,
    claims: { email: values.oidcEmailClaim, name: values.oidcNameClaim, groups: values.oidcGroupsClaim },
    groups: values.oidcGroups
      .split(",")
      .map((group) => group.trim())
      .filter((group) => group !== ""),
    mapping: mappingOf(values.oidcMapping),
  };
}

/** Gets the claims of ID tokens that better-auth has verified. False lets nobody in. */
export type OnClaims = (claims: Claims) => boolean;

export const oidcPlugin = (
  { issuer, clientId, clientSecret, claims, groups, mapping }: OidcOptions,
  { onClaims, isTest = false }: { onClaims: OnClaims; isTest?: boolean },
) =>
  genericOAuth({
    config: [
      {
        providerId: "oidc",
        discoveryUrl: `${withoutSlash(issuer)}/.well-known/openid-configuration`,
        clientId,
        ...(clientSecret !== undefined && { clientSecret }),
        scopes: ["openid", "email", "profile"],
        accountSubject: ({ profile }) => (profile.sub === undefined ? "" : subjectOf(issuer, String(profile.sub))),
        requireIdTokenVerification: true,
        // Without these, the standard claims are also read from the provider's userinfo endpoint.
        ...((isTest || claims.email !== "email" || groups.length > 0 || mapping.length > 0) && {
          getUserInfo: async ({ idToken }) => {
            const token = claimsIn(idToken);
            return onClaims(token) ? personOf(token, { issuer, claims, groups }) : null;
          },
        }),
        mapProfileToUser: (profile) => {
          // The provider's own document names an issuer, which the token has; it may be another.
          if (profile.iss !== undefined && !isIssuer(profile.iss, issuer)) return { email: "" };
          const name = textIn(profile, claims.name) ?? profile.name;
          return claims.name === "name" || name === undefined ? {} : { name };
        },
      },
    ],
  });

/** Providers differ in a slash at the end. */
const withoutSlash = (issuer: string): string => issuer.replace(/\/$/, "");
export const isIssuer = (named: unknown, issuer: string): boolean =>
  typeof named === "string" && withoutSlash(named) === withoutSlash(issuer);

/** The name of a person among the logins: subjects of two providers may be equal. */
export const subjectOf = (issuer: string, subject: string): string => `${withoutSlash(issuer)} ${subject}`;

/**
 * The person that an ID token describes; null for one without an address, of another issuer, or of
 * none of the groups.
 */
export function personOf(token: Claims, { issuer, claims, groups }: Pick<OidcOptions, "issuer" | "claims" | "groups">) {
  const email = textIn(token, claims.email);
  const subject = textIn(token, "sub");
  const own = groupsIn(token, claims.groups) ?? [];
  const isMember = groups.length === 0 || groups.some((group) => own.includes(group));
  if (email === undefined || !email.includes("@") || subject === undefined) return null;
  if (!isMember || !isIssuer(token.iss, issuer)) return null;
  // The provider says only of its standard claim whether the address was verified.
  const emailVerified = claims.email === "email" && token.email_verified === true;
  return { ...token, sub: subject, id: subject, email, emailVerified, name: textIn(token, "name") ?? email };
}

/** The groups of a person, a text or a list; undefined if the token says nothing of them. */
export function groupsIn(token: Claims, name: string): string[] | undefined {
  const value = Object.hasOwn(token, name) ? token[name] : undefined;
  if (value === undefined || value === null) return undefined;
  return [value].flat().filter((group) => typeof group === "string");
}

const textIn = (claims: Claims, name: string): string | undefined => {
  const value = Object.hasOwn(claims, name) ? claims[name] : undefined;
  return typeof value === "string" && value !== "" ? value : undefined;
};

/** The claims of a JSON Web Token; none if it is not one. */
function claimsIn(token: string | undefined): Claims {
  try {
    const claims: unknown = JSON.parse(Buffer.from(token?.split(".")[1] ?? "", "base64url").toString());
    return typeof claims === "object" && claims !== null ? (claims as Claims) : {};
  } catch {
    return {};
  }
}
