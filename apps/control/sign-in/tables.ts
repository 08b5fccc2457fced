/** The tables that better-auth keeps, and that of control's own secrets. */
import type { Generated } from "kysely";

export interface UserRow {
  id: string;
  name: string;
  email: string;
  emailVerified: boolean;
  image: string | null;
  createdAt: Generated<Date>;
  updatedAt: Generated<Date>;
  twoFactorEnabled: boolean | null;
  isOperator: boolean;
}

export interface SessionRow {
  id: string;
  expiresAt: Date;
  token: string;
  createdAt: Date;
  updatedAt: Date;
  ipAddress: string | null;
  userAgent: string | null;
  userId: string;
  method: string | null;
}

/** A way in which a user signs in: a password (`credential`), or an account at a provider. */
interface LoginRow {
  id: string;
  accountId: string;
  providerId: string;
  userId: string;
  password: string | null;
  createdAt: Generated<Date>;
  updatedAt: Date;
}

interface VerificationRow {
  id: string;
  identifier: string;
  value: string;
  expiresAt: Date;
}

interface SecretRow {
  name: string;
  value: string;
}

export interface SignInTables {
  users: UserRow;
  sessions: SessionRow;
  logins: LoginRow;
  verifications: VerificationRow;
  secrets: SecretRow;
}
