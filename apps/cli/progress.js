/** A progress line for long steps: redrawn on a terminal, repeated elsewhere. */

const terminalEveryMs = 250;
const plainEveryMs = 5_000;

/**
 * Prints the title at once, then the detail and the elapsed seconds at intervals.
 * @param {string} title
 * @returns {{ say: (detail: string) => void, end: () => void, stop: () => void }} `end`: print the
 * success; `stop`: print nothing more
 */
export function startProgress(title) {
  const output = process.stdout;
  const begun = performance.now();
  const seconds = () => `${Math.round((performance.now() - begun) / 1_000)} s`;
  let detail = "";
  const line = () => `${title} … ${detail && `${detail}, `}${seconds()}`;
  const draw = () => (output.isTTY ? output.write(`\r\x1b[2K${line()}`) : output.write(`${line()}\n`));
  output.write(`${title} …${output.isTTY ? "" : "\n"}`);
  const timer = setInterval(draw, output.isTTY ? terminalEveryMs : plainEveryMs);
  let over = false;
  const finish = (/** @type {string} */ last) => {
    if (over) return;
    over = true;
    clearInterval(timer);
    output.write(last);
  };
  return {
    say: (text) => {
      detail = text;
    },
    end: () => finish(`${output.isTTY ? "\r\x1b[2K" : ""}${title}: done in ${seconds()}\n`),
    stop: () => finish(output.isTTY ? "\n" : ""),
  };
}
