/**
 * The WebSocket at which operators follow the live state. It only sends: what a browser sends is
 * ignored.
 */

import websocket from "@fastify/websocket";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import type { WebSocket } from "ws";
import type { Clock } from "#service/clock.ts";
import { type Actor, scopeOf } from "../api/actor.ts";
import { Fault } from "../api/faults.ts";
import type { LiveStates } from "./live-state.ts";

export interface LiveSocketOptions {
  states: LiveStates;
  /** Throws a Fault for a page of another origin. */
  identify(request: FastifyRequest): Promise<Actor | undefined>;
  clock: Clock;
  log: Logger;
}

const everyMs = 1_000;
/** A session that has ended is noticed within this time. */
const identifyEveryMs = 15_000;
const socketsMax = 100;
/** A browser that does not read is disconnected. */
const bufferedBytesMax = 1 << 20;
const incomingBytesMax = 1_024;
/** https://www.rfc-editor.org/rfc/rfc6455#section-7.4.1 */
const policyViolation = 1008;

interface Viewer {
  socket: WebSocket;
  request: FastifyRequest;
  identifiedAt: number;
}

export async function addLiveSocket(server: FastifyInstance, options: LiveSocketOptions): Promise<void> {
  const { states, clock, log } = options;
  const viewers = new Set<Viewer>();
  const authorize = async (request: FastifyRequest) =>
    scopeOf(await options.identify(request), "readOperations", "operator");
  const send = async () => {
    if (viewers.size === 0) return;
    try {
      const text = JSON.stringify(await states.read());
      for (const viewer of viewers) await sendTo(viewer, text);
    } catch (error) {
      log.debug({ err: error }, "the live state could not be read");
    }
  };
  const sendTo = async (viewer: Viewer, text: string) => {
    const { socket, request } = viewer;
    const now = clock.epoch();
    if (now - viewer.identifiedAt > identifyEveryMs) {
      viewer.identifiedAt = now;
      const isAllowed = await authorize(request).then(
        () => true,
        () => false,
      );
      if (!isAllowed) return socket.close(policyViolation, "signed out");
    }
    if (socket.bufferedAmount > bufferedBytesMax) socket.terminate();
    else socket.send(text);
  };
  const timer = setInterval(() => void send(), everyMs);
  server.addHook("preClose", async () => {
    clearInterval(timer);
    for (const { socket } of viewers) socket.terminate();
  });
  await server.register(websocket, { options: { maxPayload: incomingBytesMax } });
  server.get(
    "/api/v1/operations/live",
    {
      websocket: true,
      schema: { hide: true },
      preValidation: async (request) => {
        await authorize(request);
        if (viewers.size >= socketsMax)
          throw new Fault("too_many_requests", "Too many people follow the live state; try again later.");
      },
    },
    (socket, request) => {
      const viewer = { socket, request, identifiedAt: clock.epoch() };
      viewers.add(viewer);
      socket.on("close", () => viewers.delete(viewer));
      socket.on("error", () => socket.terminate());
      void send();
    },
  );
}
