/**
 * A clock that all processes of this machine share, so that their time stamps can be subtracted.
 */

/**
 * The difference between this process's clock and the machine's, from the fastest of several
 * readings.
 */
const offset = (() => {
  let best = { took: Number.POSITIVE_INFINITY, offset: 0 };
  for (let look = 0; look < 50; look++) {
    const before = performance.now() * 1_000;
    const machine = Number(process.hrtime.bigint()) / 1_000;
    const took = performance.now() * 1_000 - before;
    if (took < best.took) best = { took, offset: machine - before - took / 2 };
  }
  return best.offset;
})();

/** Whole microseconds since the machine started. */
export const nowMicroseconds = (): number => Math.floor(performance.now() * 1_000 + offset);
