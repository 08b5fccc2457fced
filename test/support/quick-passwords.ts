/**
 * Passwords of tests are hashed with a thousandth of the work. Only their time differs: better-auth
 * takes the cost from itself and keeps it in no hash.
 */
import crypto, { type ScryptOptions } from "node:crypto";
import { syncBuiltinESMExports } from "node:module";

const { scrypt } = crypto;
type Scrypt = (
  ...args: [
    password: string,
    salt: string,
    length: number,
    options: ScryptOptions,
    done: (error: Error | null, key: Buffer) => void,
  ]
) => void;
const quick: Scrypt = (password, salt, length, options, done) =>
  scrypt(password, salt, length, { ...options, N: 16 }, done);
crypto.scrypt = quick as typeof scrypt;
syncBuiltinESMExports();
