/** A typed stream of events inside one process. Emitters do not know their subscribers. */

/** A handler for each kind of event that a subscriber wants. */
export type Subscriber<Events> = { readonly [Kind in keyof Events]?: (event: Events[Kind]) => void };

/** The interface for code that emits events. */
export interface EventSink<Events> {
  /** Whether anyone subscribed to this kind. Ask before building an event on a hot path. */
  has(kind: keyof Events): boolean;
  /** Calls the subscribers of this kind in the order of their subscription, before it returns. */
  emit<Kind extends keyof Events>(kind: Kind, event: Events[Kind]): void;
}

/**
 * Delivers events synchronously. A subscriber must not throw, and must not keep the event's objects
 * unless the event says that they do not change: they belong to the emitter. All subscribers are
 * known before the first event; there is no way to unsubscribe.
 */
export class EventStream<Events> implements EventSink<Events> {
  readonly #handlers = new Map<keyof Events, ((event: never) => void)[]>();

  constructor(...subscribers: readonly Subscriber<Events>[]) {
    for (const subscriber of subscribers)
      for (const [kind, handler] of Object.entries(subscriber) as [keyof Events, (event: never) => void][]) {
        const handlers = this.#handlers.get(kind);
        if (handlers === undefined) this.#handlers.set(kind, [handler]);
        else handlers.push(handler);
      }
  }

  has(kind: keyof Events): boolean {
    return this.#handlers.has(kind);
  }

  emit<Kind extends keyof Events>(kind: Kind, event: Events[Kind]): void {
    const handlers = this.#handlers.get(kind);
    if (handlers !== undefined) for (const handler of handlers) handler(event as never);
  }
}
