/** Sign-in by an OpenID Connect provider: https://openid.net/specs/openid-connect-core-1_0.html */
import { genericOAuth } from "better-auth/plugins";

export interface OidcOptions {
  issuer: string;
  clientId: string;
  clientSecret: string | undefined;
  /** The names of the claims with a person's address, name and groups. */
  claims: { email: string; name: string; groups: string };
  /** The groups whose members may sign in; empty for everybody. */
  groups: readonly string[];
}

type Claims = Record<string, unknown>;

/**
 * The standard claims are also read from the provider's userinfo endpoint, others from the ID token
 * alone, which better-auth has verified before.
 */
export const oidcPlugin = ({ issuer, clientId, clientSecret, claims, groups }: OidcOptions) =>
  genericOAuth({
    config: [
      {
        providerId: "oidc",
        discoveryUrl: `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`,
        clientId,
        ...(clientSecret !== undefined && { clientSecret }),
        scopes: ["openid", "email", "profile"],
        requireIdTokenVerification: true,
        ...((claims.email !== "email" || groups.length > 0) && {
          getUserInfo: async ({ idToken }) => personOf(claimsIn(idToken), claims.email, claims.groups, groups),
        }),
        ...(claims.name !== "name" && {
          mapProfileToUser: (profile) => {
            const name = textIn(profile, claims.name) ?? profile.name;
            return name === undefined ? {} : { name };
          },
        }),
      },
    ],
  });

/** Null for a person without an address, and for one of none of the groups. */
function personOf(token: Claims, emailClaim: string, groupsClaim: string, groups: readonly string[]) {
  const email = textIn(token, emailClaim);
  const subject = textIn(token, "sub");
  const own = Object.hasOwn(token, groupsClaim) ? [token[groupsClaim]].flat() : [];
  const isMember = groups.length === 0 || groups.some((group) => own.includes(group));
  if (email === undefined || !email.includes("@") || subject === undefined || !isMember) return null;
  // The provider says only of its standard claim whether the address was verified.
  const emailVerified = emailClaim === "email" && token.email_verified === true;
  return { ...token, sub: subject, id: subject, email, emailVerified, name: textIn(token, "name") ?? email };
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
