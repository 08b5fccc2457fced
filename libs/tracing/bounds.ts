/** The fixed bounds of tracing. */

/**
 * Spans that wait for the collector. Beyond that, new ones are dropped and counted; at about 1 kB
 * each.
 */
export const waitingSpansMax = 8_192;
/** Spans of one request to the collector. */
export const batchSpansMax = 512;
/** How long the end of a process waits for the collector. */
export const lastExportMs = 2_000;
/**
 * Characters of a `tracestate`; a longer one is dropped:
 * https://www.w3.org/TR/trace-context/#tracestate-limits
 */
export const traceStateLengthMax = 512;
/** Events of one span; of more, the first ones. */
export const spanEventsMax = 32;
/**
 * How long one request to the collector takes at most, repetitions included. The exporter's own
 * timeout is usually shorter.
 */
export const sendMsMax = 60_000;
