/** Load on the ready ingresses of a gateway whose processes are replaced one after the other. */
import type { Gateway, Role } from "../support/gateway.ts";
import { readStream } from "../support/stream.ts";
import { until } from "../support/time.ts";

/** The models that the load calls, whole and streamed. */
export const rollingModels = [
  { id: "fast", model: "sim-text;rate=0;first=0;tokens=8" },
  { id: "short", model: "sim-text;rate=20;first=0;tokens=60" },
];

const seats = 12;
/** As a load balancer asks. */
const readinessEveryMs = 50;

export class RollingLoad implements AsyncDisposable {
  /** The reason, for each request that did not get its whole answer. */
  readonly lost: string[] = [];
  #complete = 0;
  readonly #gateway: Gateway;
  readonly #ready = new Set<string>();
  #ingresses: readonly Record<string, string>[] = [];
  #isRunning = true;
  readonly #tasks: Promise<unknown>[];

  constructor(gateway: Gateway, ingresses: readonly Role[]) {
    this.#gateway = gateway;
    this.#ingresses = ingresses.map(({ urls }) => urls);
    this.#tasks = [this.#watch(), ...Array.from({ length: seats }, (_, seat) => this.#call(seat))];
  }

  /** Waits until the ingress is ready; from then on it gets load. */
  async add({ urls }: Role): Promise<void> {
    this.#ingresses = [...this.#ingresses, urls];
    await until("the new ingress is ready", () => this.#ready.has(urls.api as string));
  }

  /** Stops an ingress, which announces that first. Resolves to its exit code. */
  async remove(ingress: Role): Promise<number | null> {
    const code = await ingress.stop();
    this.#ingresses = this.#ingresses.filter(({ api }) => api !== ingress.urls.api);
    this.#ready.delete(ingress.urls.api as string);
    return code;
  }

  /** Waits until so many more requests got their whole answers. */
  async flow(count = 20): Promise<void> {
    const from = this.#complete;
    await until("the load flows", () => this.#complete > from + count);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isRunning = false;
    await Promise.all(this.#tasks);
  }

  async #watch(): Promise<void> {
    while (this.#isRunning) {
      await Promise.all(
        this.#ingresses.map(async ({ api, operations }) => {
          const ok = await fetch(`${operations}/readyz`).then(
            (response) => response.ok,
            () => false,
          );
          if (ok) this.#ready.add(api as string);
          else this.#ready.delete(api as string);
        }),
      );
      await new Promise((resolve) => setTimeout(resolve, readinessEveryMs));
    }
  }

  async #call(seat: number): Promise<void> {
    await until("an ingress is ready", () => this.#ready.size > 0);
    for (let turn = seat; this.#isRunning; turn++) {
      const urls = [...this.#ready];
      const url = urls[turn % urls.length];
      if (url === undefined) {
        this.lost.push("no ingress was ready");
        return;
      }
      const stream = turn % 2 === 0;
      try {
        const request = { model: stream ? "short" : "fast", stream, messages: [{ role: "user", content: "hello" }] };
        const response = await this.#gateway.post(request, { url });
        const isComplete = stream
          ? (await readStream(response)).done
          : response.ok && ((await response.json()) as { choices: unknown[] }).choices.length === 1;
        if (isComplete) this.#complete++;
        else this.lost.push(`${response.status} from ${url}`);
      } catch (error) {
        const { message, cause } = error as Error;
        this.lost.push(`${message} (${(cause as Error | undefined)?.message}) from ${url}`);
      }
    }
  }
}
