/** The order in which the tokens of several choices are sent: they take turns, token by token. */

export interface Turns {
  /** Of all choices together. */
  length: number;
  choiceAt(index: number): number;
  /** The place of the token in its choice. */
  tokenAt(index: number): number;
}

/** Of choices that are so many tokens long. */
export function turnsOf(lengths: number[]): Turns {
  const length = lengths.reduce((sum, count) => sum + count, 0);
  if (lengths.length === 1) return { length, choiceAt: () => 0, tokenAt: (index) => index };
  const choices = new Uint8Array(length);
  const tokens = new Uint32Array(length);
  let filled = 0;
  for (let token = 0; filled < length; token++) {
    for (const [choice, count] of lengths.entries()) {
      if (token >= count) continue;
      choices[filled] = choice;
      tokens[filled++] = token;
    }
  }
  return { length, choiceAt: (index) => choices[index] ?? 0, tokenAt: (index) => tokens[index] ?? 0 };
}
