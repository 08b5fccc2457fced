/** The tokens of several choices, which take turns, token by token. */
export function* inTurns<Token>(choices: readonly Iterator<Token>[]): Generator<{ choice: number; token: Token }> {
  const running = new Map(choices.entries());
  while (running.size > 0)
    for (const [choice, tokens] of running) {
      const { done, value } = tokens.next();
      if (done) running.delete(choice);
      else yield { choice, token: value };
    }
}
