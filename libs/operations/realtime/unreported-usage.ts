/**
 * Estimates what a session has used since its upstream's last report, because the session may end
 * before the next one. An answer is paid with the conversation before it: the last report's tokens,
 * and what the caller said since.
 */
import { bytesPerToken, plainUsageOf, plausible, type Usage } from "#dialects/usage.ts";

export type Medium = "text" | "audio";
type Tokens = Record<Medium, number>;

const none = (): Tokens => ({ text: 0, audio: 0 });

/** The tokens of a text that came in one piece. */
export const textTokensIn = (bytes: number) => Math.max(1, Math.floor(bytes / bytesPerToken));

export class UnreportedUsage {
  /** The conversation as of the last report. */
  #context: Usage | undefined;
  /** The caller's tokens since then. */
  #input = none();
  #output = none();
  /** Answers in progress. */
  #answers = 0;
  /** Their input is in a report. */
  #isInputReported = false;

  get isAnswering(): boolean {
    return this.#answers > 0;
  }

  /** Tokens from the caller. */
  heard(medium: Medium, tokens: number): void {
    this.#input[medium] += tokens;
  }

  /** An answer begins. */
  began(): void {
    if (this.#answers++ === 0) this.#isInputReported = false;
  }

  /** Tokens of an answer in progress. */
  spoke(medium: Medium, tokens: number): void {
    if (this.#answers > 0) this.#output[medium] += tokens;
  }

  /** A report of all that is known here. `isConversation`: later answers are paid with it again. */
  reported(usage: Usage, isConversation = true): void {
    if (isConversation) this.#context = usage;
    this.#input = none();
    this.#output = none();
    this.#isInputReported = true;
  }

  /** An answer is over. Its tokens no longer count once no answer is in progress. */
  ended(): void {
    this.#answers = Math.max(0, this.#answers - 1);
    if (this.#answers === 0) this.#output = none();
  }

  /** The usage of the answers in progress; undefined if there are none. */
  get usage(): Usage | undefined {
    if (this.#answers === 0) return undefined;
    const context = this.#context ?? plainUsageOf(0);
    const {
      inputTokens,
      cachedInputTokens,
      outputTokens,
      audioInputTokens = 0,
      audioOutputTokens = 0,
      units,
    } = context;
    const cachedAudioTokens = units?.cachedAudioTokens ?? 0;
    const input = this.#isInputReported
      ? { inputTokens: 0, cachedInputTokens: 0, audioInputTokens: 0 }
      : {
          inputTokens: inputTokens + outputTokens + Math.ceil(this.#input.text + this.#input.audio),
          cachedInputTokens,
          audioInputTokens: audioInputTokens + audioOutputTokens + Math.ceil(this.#input.audio),
          ...(cachedAudioTokens > 0 && { units: { cachedAudioTokens } }),
        };
    return {
      ...plausible({
        ...input,
        cacheWriteTokens: 0,
        outputTokens: Math.ceil(this.#output.text + this.#output.audio),
        reasoningTokens: 0,
        audioOutputTokens: Math.ceil(this.#output.audio),
      }),
      isEstimated: true,
    };
  }
}
