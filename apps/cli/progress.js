/** A line that shows that something goes on, for things that take longer than a moment: redrawn on a terminal, repeated elsewhere. */

const terminalEveryMs = 250;
const plainEveryMs = 5_000;

/**
 * Says at once what begins, and then now and then how far it is and for how many seconds it has been at it.
 * @param {string} title
 * @returns {{ say: (detail: string) => void, end: () => void, stop: () => void }} `end`: it is done; `stop`: say no more
 */
export function startProgress(title) {
  const output = process.stdout;
  const begun = performance.now();
  const seconds = () => `${Math.round((performance.now() - begun) / 1_000)} s`;
  let detail = "";
  const line = () => `${title} … ${detail && `${detail}, `}${seconds()}`;
  const draw = () => (output.isTTY ? output.write(`\r\x1b[2K${line()}`) : output.write(`${line()}\n`));
  output.write(output.isTTY ? `${title} …` : `${title} …\n`);
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
