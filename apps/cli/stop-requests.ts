/** Turns signals and the end of the parent process into two requests: stop, and stop at once. */

/**
 * One Ctrl-C arrives several times: from the terminal and from every parent process. Only a later
 * signal is a second request.
 */
const sameRequestMs = 1_000;

/** Listens until the process ends. */
export function onStopRequests() {
  const stop = new AbortController();
  const hurry = new AbortController();
  const requested = Promise.withResolvers<void>();
  let requestedAt = 0;
  const request = () => {
    if (stop.signal.aborted) {
      if (performance.now() - requestedAt > sameRequestMs) hurry.abort();
      return;
    }
    requestedAt = performance.now();
    stop.abort();
    requested.resolve();
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, request);
  process.on("disconnect", () => {
    if (!stop.signal.aborted) request();
  });
  return {
    stop: stop.signal,
    hurry: hurry.signal,
    requested: requested.promise,
    /** Rejects when a stop is requested first. */
    unlessStopped: <Value>(wait: Promise<Value>): Promise<Value> =>
      Promise.race([
        wait,
        requested.promise.then(() => {
          throw stop.signal.reason;
        }),
      ]),
  };
}
