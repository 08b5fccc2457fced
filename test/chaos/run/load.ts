/**
 * The callers of a chaos run: each sends one call after the other, chosen by its own random
 * numbers.
 */
import { setTimeout as delay } from "node:timers/promises";
import { startSimulator } from "../../support/roles.ts";
import { type Call, type CallResult, callMsMax } from "./call.ts";
import { simulatedModelOf } from "./catalogue.ts";
import { type CallContext, type CallKind, kinds } from "./kinds.ts";
import { type Random, randomOf } from "./random.ts";
import type { Stack } from "./stack.ts";

export interface Load {
  readonly calls: readonly Call[];
  /** Sends one more call and records it. */
  send(kind: CallKind, ingress: number): Promise<Call>;
  /** Starts more callers. */
  add(callers: number): void;
  /** Lets the callers and all running calls end. */
  pause(): Promise<void>;
  stop(): Promise<void>;
}

const pauseMsMax = 600;

export async function startLoad(stack: Stack, seed: number): Promise<Load> {
  const oracle = await openOracle();
  const calls: Call[] = [];
  const running = new Set<Promise<unknown>>();
  let isOver = false;
  let numbers = 0;

  const run = async (kind: CallKind, random: Random, ingress: number): Promise<Call> => {
    const number = ++numbers;
    const other = (ingress + 1) % stack.urls.length;
    const context: CallContext = {
      prompt: `This is question ${number} of the run with seed ${seed}.`,
      random,
      url: stack.urls[ingress] as string,
      otherUrl: stack.urls[other] as string,
      keys: stack.keys,
      expected: oracle.expected,
    };
    const startedAt = Date.now();
    const result = await kind
      .run(context)
      .catch((error: Error): CallResult => ({ outcome: "wrong", detail: `${error.stack}`, requestIds: [] }));
    const endedAt = Date.now();
    const tookTooLong = endedAt - startedAt > callMsMax;
    const call: Call = {
      number,
      kind: kind.name,
      ingresses: kind.callsBoth ? [ingress, other] : [ingress],
      startedAt,
      endedAt,
      ...(tookTooLong ? { ...result, outcome: "wrong", detail: `took more than ${callMsMax} ms` } : result),
    };
    calls.push(call);
    return call;
  };
  const track = <Result>(promise: Promise<Result>): Promise<Result> => {
    running.add(promise);
    void promise.finally(() => running.delete(promise));
    return promise;
  };
  const choices = kinds.flatMap((kind) => Array.from({ length: kind.weight }, () => kind));
  const caller = async (place: number) => {
    const random = randomOf(seed * 1_000 + place);
    while (!isOver) {
      await run(random.pick(choices), random, random.integer(0, stack.urls.length - 1));
      await delay(random.integer(0, pauseMsMax));
    }
  };
  const pause = async () => {
    isOver = true;
    await Promise.all(running);
  };
  const probing = randomOf(seed);
  return {
    calls,
    send: (kind, ingress) => track(run(kind, probing, ingress)),
    add(callers) {
      for (let place = 0; place < callers; place++) void track(caller(place));
    },
    pause,
    async stop() {
      await pause();
      await oracle.close();
    },
  };
}

/** Knows each answer: a simulator of its own, asked without a gateway. */
async function openOracle() {
  const simulator = await startSimulator({});
  const url = simulator.urls.simulator;
  return {
    async expected(prompt: string, model: string): Promise<string> {
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({
          model: simulatedModelOf(model).replaceAll(/(rate|first)=\d+/g, "$1=0"),
          messages: [{ role: "user", content: prompt }],
        }),
      });
      const { choices } = (await response.json()) as { choices: { message: { content: string } }[] };
      return choices[0]?.message.content as string;
    },
    close: () => simulator.close(),
  };
}
