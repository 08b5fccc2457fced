/**
 * Links that people open: to sign in once, to confirm an address, to accept an invitation, to set a
 * new password. Tokens of the last two are in the fragment, which no server sees.
 */

import { createEmailVerificationToken } from "better-auth/api";
import type { Clock } from "#service/clock.ts";
import { emailLinkMs, signInLinkMs } from "../bounds.ts";
import type { Database } from "../database/database.ts";
import type { Auth, LinkRequest } from "./auth.ts";
import { authPath } from "./auth.ts";

export interface Links {
  /** Signs the user in once. */
  signIn(user: { id: string; email: string }): Promise<{ url: string; expiresAt: Date }>;
  /** Gives the user a new address, once, if it is opened in a session of the user. */
  newEmail(user: { id: string; email: string }, email: string): Promise<string>;
  invitation(token: string): string;
  password(token: string): string;
}

/**
 * `base` is the address of control for browsers. `auth` is created after the links, which its mails
 * contain.
 */
export function linksOf(base: () => string, auth: () => Auth, database: Database, clock: Clock): Links {
  return {
    async signIn({ email }) {
      const expiresAt = new Date(clock.epoch() + signInLinkMs);
      let created = "";
      const request: LinkRequest = {
        created(token) {
          created = token;
        },
      };
      // An address that nobody has verified would cost the user the password (better-auth's
      // protection against squatters): whoever may create links vouches for it.
      await database.updateTable("users").set({ emailVerified: true }).where("email", "=", email).execute();
      await auth().api.signInMagicLink({
        body: { email, metadata: { ...request } },
        headers: new Headers({ host: new URL(base()).host }),
      });
      return { url: `${base()}${authPath}/magic-link/verify?token=${created}&callbackURL=%2F`, expiresAt };
    },
    async newEmail({ id, email: before }, email) {
      const { secret } = await auth().$context;
      const purpose = { requestType: "change-email-verification", userId: id };
      const token = await createEmailVerificationToken(secret, before, email, emailLinkMs / 1_000, purpose);
      return `${base()}${authPath}/verify-email?token=${token}&callbackURL=%2F`;
    },
    invitation: (token) => `${base()}/invitation#token=${token}`,
    password: (token) => `${base()}/password#token=${token}`,
  };
}
