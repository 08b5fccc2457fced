/**
 * Connections to addresses that somebody else names: public ones only, and those of networks that
 * the operator allows.
 */
import { lookup as resolve } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";
import { Agent, buildConnector, type Dispatcher, setGlobalDispatcher } from "undici";
import type { Setting } from "./config.ts";
import { isMetadataAddress } from "./networks.ts";
import { StartupFault } from "./startup.ts";

export type Network = [ipaddr.IPv4 | ipaddr.IPv6, number];

/** Networks in CIDR notation, separated by commas. Throws for anything else. */
export const networksOf = (text: string): Network[] =>
  text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .map((part) => ipaddr.parseCIDR(part));

/** A setting with networks; none by default. */
export const networksSetting = (variable: string, description: string): Setting<Network[]> => ({
  variable,
  description,
  default: "",
  bounds: "networks in CIDR notation, separated by commas",
  read(environment) {
    try {
      return networksOf(environment[variable] ?? "");
    } catch {
      throw new StartupFault(`${variable} must be ${this.bounds}, not "${environment[variable]}"`);
    }
  },
});

/**
 * Unicast addresses that are not on the internet: IPv4-compatible IPv6 addresses, and Azure's
 * metadata server.
 */
const internal = networksOf("::/96, 168.63.129.16/32");

/** Whether an address belongs to the public internet or to one of the networks. */
export function isReachable(address: string, networks: readonly Network[]): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.process(address);
  const isIn = (among: readonly Network[]) =>
    among.some(([network, bits]) => network.kind() === parsed.kind() && parsed.match(network, bits));
  return (parsed.range() === "unicast" && !isIn(internal)) || isIn(networks);
}

/**
 * False for a literal address that is not reachable, and for a name of this machine's own if its
 * loopback addresses are not. Any other name is looked up at each connection.
 */
export const isPublicHost = (hostname: string, networks: readonly Network[]): boolean => {
  // https://www.rfc-editor.org/rfc/rfc6761#section-6.3
  if (/(^|\.)localhost\.?$/i.test(hostname)) return ["127.0.0.1", "::1"].some((own) => isReachable(own, networks));
  const literal = literalOf(hostname);
  return isIP(literal) === 0 || isReachable(literal, networks);
};

/** IPv6 addresses have brackets in a URL. */
const literalOf = (hostname: string): string => hostname.replace(/^\[|\]$/g, "");

/** No address of a name may be used. */
export class Unreachable extends Error {
  /** Not one of the system's. */
  readonly code = "EADDRREFUSED";
}

/** The addresses of a name that may be used; `Unreachable` if none may. */
export const lookupOf =
  (mayUse: (address: string) => boolean): LookupFunction =>
  (hostname, options, callback) =>
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      const reachable = error === null ? addresses.filter(({ address }) => mayUse(address)) : [];
      const [first] = reachable;
      if (first === undefined) callback(error ?? new Unreachable(), "", 0);
      else if (options.all === true) callback(null, reachable);
      else callback(null, first.address, first.family);
    });

/**
 * Connects to public addresses and to those of the networks only. Whatever a name stands for is
 * checked when the connection is made, so a name that changes its address gains nothing. Requests
 * of other addresses reject with `Unreachable`, or with an error whose cause it is.
 */
export const createPublicAgent = (
  networks: readonly Network[],
  { timeout, connections }: { timeout: number; connections: number },
): Agent =>
  new Agent({
    connections,
    pipelining: 1,
    connect: connectorOf((address) => isReachable(address, networks), timeout),
  });

function connectorOf(mayUse: (address: string) => boolean, timeout: number): buildConnector.connector {
  const connect = buildConnector({ lookup: lookupOf(mayUse), timeout });
  return (options, callback) => {
    // A literal address is never looked up.
    const literal = literalOf(options.hostname);
    if (isIP(literal) !== 0 && !mayUse(literal)) callback(new Unreachable(), null);
    else connect(options, callback);
  };
}

/**
 * The built-in `fetch`, which libraries call, then never reaches a metadata server of a cloud, also
 * by a redirect. Connections, and answers to their last byte, take `timeout` milliseconds at most,
 * and answers have at most `bytesMax` bytes.
 */
export function boundFetch({ timeout, bytesMax }: AnswerBounds): void {
  const connect = connectorOf((address) => !isMetadataAddress(address), timeout);
  const bounded: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) =>
    dispatch(
      // A small encoded answer may be a large one.
      { ...options, headers: { ...(options.headers as Record<string, string>), "accept-encoding": "identity" } },
      new BoundedAnswer(handler, { timeout, bytesMax }),
    );
  setGlobalDispatcher(new Agent({ connect }).compose(bounded));
}

interface AnswerBounds {
  timeout: number;
  bytesMax: number;
}

/** Passes the events of an answer on, and breaks an answer off that is beyond its bounds. */
class BoundedAnswer implements Dispatcher.DispatchHandler {
  readonly #next: Dispatcher.DispatchHandler;
  readonly #bounds: AnswerBounds;
  #timer: NodeJS.Timeout | undefined;
  #bytes = 0;
  #isOver = false;

  constructor(next: Dispatcher.DispatchHandler, bounds: AnswerBounds) {
    this.#next = next;
    this.#bounds = bounds;
  }

  onRequestStart(controller: Dispatcher.DispatchController, context: unknown): void {
    this.#timer ??= setTimeout(() => this.#breakOff(controller, "is too slow"), this.#bounds.timeout);
    this.#next.onRequestStart?.(controller, context);
  }

  onResponseStart(...event: Parameters<NonNullable<Dispatcher.DispatchHandler["onResponseStart"]>>): void {
    const [controller, , { "content-encoding": coding = "identity" }] = event;
    if (coding === "identity") this.#next.onResponseStart?.(...event);
    else this.#breakOff(controller, "is encoded, although the request does not allow it");
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes > this.#bounds.bytesMax) this.#breakOff(controller, `has more than ${this.#bounds.bytesMax} bytes`);
    else if (!this.#isOver) this.#next.onResponseData?.(controller, chunk);
  }

  onResponseEnd(...event: Parameters<NonNullable<Dispatcher.DispatchHandler["onResponseEnd"]>>): void {
    if (this.#end()) this.#next.onResponseEnd?.(...event);
  }

  onResponseError(controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#end()) this.#next.onResponseError?.(controller, error);
  }

  /** Later, because `fetch` does not notice an error in the turn of the head. */
  #breakOff(controller: Dispatcher.DispatchController, reason: string): void {
    if (!this.#end()) return;
    const error = new Error(`the answer ${reason}`);
    setImmediate(() => {
      controller.abort(error);
      this.#next.onResponseError?.(controller, error);
    });
  }

  /** False if it is over. */
  #end(): boolean {
    clearTimeout(this.#timer);
    const isFirst = !this.#isOver;
    this.#isOver = true;
    return isFirst;
  }
}
