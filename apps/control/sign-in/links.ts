/** Links that people open: to sign in once, to accept an invitation, to set a new password. Tokens of the last two are in the fragment, which no server sees. */

import { signInLinkMs } from "../bounds.ts";
import type { Database } from "../database/database.ts";
import type { Auth, LinkRequest } from "./auth.ts";
import { authPath } from "./auth.ts";

export interface Links {
  /** Signs the user in once. */
  signIn(user: { id: string; email: string }): Promise<{ url: string; expiresAt: Date }>;
  invitation(token: string): string;
  password(token: string): string;
}

/** `base` is the address of control for browsers. `auth` is created after the links, which its mails contain. */
export function linksOf(base: () => string, auth: () => Auth, database: Database): Links {
  return {
    async signIn({ email }) {
      const expiresAt = new Date(Date.now() + signInLinkMs);
      let created = "";
      const request: LinkRequest = {
        created(token) {
          created = token;
        },
      };
      // An address that nobody has verified would cost the user the password (better-auth's protection against squatters): whoever may create links vouches for it.
      await database.updateTable("users").set({ emailVerified: true }).where("email", "=", email).execute();
      await auth().api.signInMagicLink({
        body: { email, metadata: { ...request } },
        headers: new Headers({ host: new URL(base()).host }),
      });
      return { url: `${base()}${authPath}/magic-link/verify?token=${created}&callbackURL=%2F`, expiresAt };
    },
    invitation: (token) => `${base()}/invitation#token=${token}`,
    password: (token) => `${base()}/password#token=${token}`,
  };
}
