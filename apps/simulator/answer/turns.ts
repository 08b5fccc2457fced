/** The order of the tokens of several choices: they take turns, token by token. */

export interface Turns {
  /** The length of all choices together. */
  length: number;
  choiceAt(index: number): number;
  /** The index of the token in its choice. */
  tokenAt(index: number): number;
}

/** `lengths` are the lengths of the choices in tokens. */
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
