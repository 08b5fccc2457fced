/** Random ids, such as those of requests: each request has one, so bytes are drawn for many. */
import { randomFillSync } from "node:crypto";

const bytesPerId = 16;
const drawn = Buffer.alloc(256 * bytesPerId);
let used = drawn.length;

/** 32 random hex digits. */
export function randomHex(): string {
  if (used === drawn.length) {
    randomFillSync(drawn);
    used = 0;
  }
  used += bytesPerId;
  return drawn.toString("hex", used - bytesPerId, used);
}
