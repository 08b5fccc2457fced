/** The faults of a chaos run. Each one strikes, lasts, and is over when it resolves. */
import { rename, writeFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { keyspaceOf } from "#service/keyspace.ts";
import { redisMemoryAgeMsMax } from "../../../apps/ingress/common/bounds.ts";
import { until } from "../../support/time.ts";
import { catalogueText } from "./catalogue.ts";
import type { Direction } from "./proxy.ts";
import type { Random } from "./random.ts";
import { addKey, isKnown, type Kind, type Member, pidOf, type Stack, type TopologyName } from "./stack.ts";

export interface Strike {
  stack: Stack;
  random: Random;
  /** Callers of this ingress may see broken connections until the fault is over. */
  disturb(ingress: Member): void;
}

export interface Fault {
  name: string;
  /** How often, compared with others. */
  weight: number;
  topologies?: readonly TopologyName[];
  run(strike: Strike): Promise<void>;
}

const keyspace = keyspaceOf("sluice");
/** Names of keys and channels whose primaries are struck. */
const redisSubjects = [keyspace.queuePrefix("chat"), keyspace.limitsSettled, keyspace.usage, "any"];
const redundant = ["sentinel", "cluster"] as const;
const both: readonly Direction[] = ["to server", "to client"];
const directionsOf = (random: Random): readonly Direction[] => random.pick([both, ["to server"], ["to client"]]);

const membersOf = ({ members }: Stack, kind: Kind) => members.filter((member) => member.kind === kind);
const pickMember = ({ stack, random }: Strike, kind: Kind) => random.pick(membersOf(stack, kind));

const ms = (random: Random, min: number, max: number) => delay(random.integer(min, max));

function disturbIf(strike: Strike, member: Member): void {
  if (member.kind === "ingress") strike.disturb(member);
}

async function killAndStart(strike: Strike, member: Member): Promise<void> {
  disturbIf(strike, member);
  await member.role?.kill();
  await ms(strike.random, 0, 4_000);
  await member.start();
}

async function freeze(strike: Strike, member: Member): Promise<void> {
  disturbIf(strike, member);
  member.role?.freeze();
  await ms(strike.random, 500, 12_000);
  member.role?.thaw();
}

async function drainAndStart(strike: Strike, member: Member): Promise<void> {
  disturbIf(strike, member);
  await member.role?.stop();
  await member.start();
}

/** Between one process and some servers. */
async function partition(
  { stack, random }: Strike,
  member: Member,
  server: "redis" | "upstream" | "postgres",
): Promise<void> {
  const pid = pidOf(member);
  if (pid === undefined) throw new Error(`${member.name} does not run`);
  const directions = directionsOf(random);
  const proxies = server === "redis" ? stack.proxies.redis : [stack.proxies[server]];
  const ends = proxies.map((proxy) => proxy.break({ pid, directions, delayMs: Number.POSITIVE_INFINITY }));
  await ms(random, 500, 10_000);
  for (const end of ends) end();
}

const ofProcesses: Fault[] = (
  [
    ["ingress", 3],
    ["chat worker", 3],
    ["image worker", 1],
    ["control", 1],
  ] as const
).flatMap(([kind, weight]): Fault[] => [
  { name: `kill: ${kind}`, weight, run: (strike) => killAndStart(strike, pickMember(strike, kind)) },
  { name: `freeze: ${kind}`, weight, run: (strike) => freeze(strike, pickMember(strike, kind)) },
  { name: `drain: ${kind}`, weight, run: (strike) => drainAndStart(strike, pickMember(strike, kind)) },
  { name: `partition: ${kind} – Redis`, weight, run: (strike) => partition(strike, pickMember(strike, kind), "redis") },
]);

const ofNetwork: Fault[] = [
  {
    name: "partition: chat worker – upstream",
    weight: 1,
    run: (strike) => partition(strike, pickMember(strike, "chat worker"), "upstream"),
  },
  {
    name: "partition: control – Postgres",
    weight: 1,
    run: (strike) => partition(strike, pickMember(strike, "control"), "postgres"),
  },
  {
    name: "partition: callers – ingress",
    weight: 1,
    async run(strike) {
      const { stack, random } = strike;
      const ingress = pickMember(strike, "ingress");
      strike.disturb(ingress);
      const proxy = stack.proxies.ingresses[membersOf(stack, "ingress").indexOf(ingress)];
      const end = proxy?.break({ directions: directionsOf(random), delayMs: Number.POSITIVE_INFINITY });
      await ms(random, 500, 8_000);
      end?.();
    },
  },
  {
    name: "reset: connections to Redis",
    weight: 1,
    run: async ({ stack }) => {
      for (const proxy of stack.proxies.redis) proxy.reset();
    },
  },
  {
    name: "reset: connections to the upstream",
    weight: 1,
    run: async ({ stack }) => stack.proxies.upstream.reset(),
  },
  {
    name: "delay: Redis",
    weight: 2,
    async run({ stack, random }) {
      const delayMs = random.integer(20, 400);
      const ends = stack.proxies.redis.map((proxy) => proxy.break({ directions: both, delayMs }));
      await ms(random, 2_000, 8_000);
      for (const end of ends) end();
    },
  },
  {
    name: "delay: upstream",
    weight: 1,
    async run({ stack, random }) {
      const end = stack.proxies.upstream.break({ directions: both, delayMs: random.integer(100, 1_500) });
      await ms(random, 2_000, 8_000);
      end();
    },
  },
];

const ofServers: Fault[] = [
  {
    name: "kill: Postgres",
    weight: 1,
    async run({ stack, random }) {
      await stack.postgres.kill();
      await ms(random, 500, 8_000);
      await stack.postgres.start();
    },
  },
  {
    name: "kill: Redis",
    weight: 3,
    topologies: ["single"],
    async run({ stack, random }) {
      const server = await stack.topology.primaryOf("any");
      await server.kill();
      await ms(random, 0, 4_000);
      await server.restart();
    },
  },
  {
    name: "freeze: Redis",
    weight: 3,
    topologies: ["single"],
    async run({ stack, random }) {
      const server = await stack.topology.primaryOf("any");
      server.pause();
      await ms(random, 500, 6_000);
      server.resume();
    },
  },
  {
    name: "planned fail-over: a primary",
    weight: 3,
    topologies: redundant,
    async run({ stack, random }) {
      await stack.topology.failOver(random.pick(redisSubjects));
      await stack.topology.settled();
    },
  },
  {
    name: "kill: a primary",
    weight: 3,
    topologies: redundant,
    async run({ stack, random }) {
      const server = await stack.topology.primaryOf(random.pick(redisSubjects));
      await server.kill();
      await ms(random, 4_000, 10_000);
      await server.restart();
      await stack.topology.settled();
    },
  },
  {
    name: "freeze: a primary",
    weight: 3,
    topologies: redundant,
    async run({ stack, random }) {
      const server = await stack.topology.primaryOf(random.pick(redisSubjects));
      server.pause();
      await ms(random, 500, 10_000);
      server.resume();
      await stack.topology.settled();
    },
  },
  {
    name: "full: Redis",
    weight: 2,
    run: (strike) => filled(strike, () => 1_000_000),
  },
  {
    name: "more than half full: Redis",
    weight: 2,
    run: (strike) => filled(strike, (used) => Math.round(used * 1.4)),
  },
];

/** For a while, the servers have as much memory as `bytesOf` says of what each uses. */
async function filled({ stack, random }: Strike, bytesOf: (used: number) => number): Promise<void> {
  const limit = (limitOf: (used: number) => number) =>
    Promise.all(
      stack.topology.servers.map((server) =>
        server.ask(async (redis) => {
          const used = Number(/used_memory:(\d+)/.exec(await redis.info("memory"))?.[1]);
          await redis.config("SET", "maxmemory", limitOf(used));
        }),
      ),
    );
  await limit(bytesOf);
  await ms(random, 1_000, 8_000);
  await limit(() => 0);
  // Ingresses know for so long how full it was.
  await delay(redisMemoryAgeMsMax);
}

async function reload(stack: Stack, text: string): Promise<void> {
  await writeFile(`${stack.catalogueFile}.next`, text);
  await rename(`${stack.catalogueFile}.next`, stack.catalogueFile);
}

const ofOperators: Fault[] = [
  {
    name: "reload: the catalogue",
    weight: 1,
    run: ({ stack, random }) => reload(stack, catalogueText(random.integer(2, 1_000))),
  },
  {
    name: "reload: a broken catalogue",
    weight: 1,
    async run({ stack, random }) {
      await reload(stack, `${catalogueText(1)}nonsense: {`);
      await ms(random, 1_000, 3_000);
      await reload(stack, catalogueText(1));
    },
  },
  {
    name: "revoke: a key",
    weight: 1,
    async run({ stack }) {
      const control = stack.control();
      const key = await addKey(control, "revoked", {});
      for (const url of stack.urls) await until("a new key is known", () => isKnown(url, key), 10_000);
      const { items } = await control.get<{ items: { id: string; hint: string }[] }>("/keys?limit=500");
      const id = items.find(({ hint }) => key.endsWith(hint))?.id;
      const response = await control.call("POST", `/keys/${id}/revoke`);
      if (!response.ok) throw new Error(`a key was not revoked: ${response.status} ${await response.text()}`);
      await response.text();
      for (const url of stack.urls)
        await until("a revoked key is refused", async () => !(await isKnown(url, key)), 2_000);
    },
  },
  {
    name: "rolling restart: ingresses and chat workers",
    weight: 1,
    async run(strike) {
      for (const kind of ["ingress", "chat worker"] as const)
        for (const member of membersOf(strike.stack, kind)) await drainAndStart(strike, member);
    },
  },
];

/** Faults of a topology, each as often as its weight. */
export const faultsOf = (topology: TopologyName): Fault[] =>
  [...ofProcesses, ...ofNetwork, ...ofServers, ...ofOperators]
    .filter(({ topologies }) => topologies?.includes(topology) ?? true)
    .flatMap((fault) => Array.from({ length: fault.weight }, () => fault));
