/** Ages the counters of rate limits in Redis, because a test cannot set Redis' clock. */

import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";

export async function age(redis: Redis, keyspace: Keyspace, seconds: number): Promise<void> {
  const older = (text: string) => String(Number(text) - seconds);
  const family = keyspace.limitsSettled.slice(0, -"settled".length);
  for (const name of await redis.keys(`${family}*`)) {
    const lifeMs = await redis.pttl(name);
    const what = name.split(":").at(-1);
    if (lifeMs - seconds * 1_000 <= 0) await redis.del(name);
    else if (what === "running" || what === "settled") {
      const members = await redis.zrange(name, "0", "-1");
      for (const member of members) await redis.zincrby(name, -seconds * 1_000, member);
    } else if (what === "window" || what === "reserved") {
      const fields = Object.entries(await redis.hgetall(name)).map(([field, value]): [string, string] => {
        if (["from", "rl", "tl"].includes(field)) return [field, older(value)];
        const [, letter, slot = ""] = /^([rt])(\d+)$/.exec(field) ?? [];
        if (letter !== undefined) return [`${letter}${older(slot)}`, value];
        const [admittedAt = "", ...amounts] = value.split(" ");
        return amounts.length === 0 ? [field, value] : [field, [older(admittedAt), ...amounts].join(" ")];
      });
      await redis.multi().del(name).hset(name, Object.fromEntries(fields)).exec();
    }
    if ((await redis.exists(name)) === 1) await redis.pexpire(name, lifeMs - seconds * 1_000);
  }
}
