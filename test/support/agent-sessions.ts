/**
 * Sessions of a coding agent in Anthropic's format, over a gateway with several workers and two
 * credentials of different organisations, one of whose workers is killed: how many tokens of the
 * prompts are read from the vendor's cache, and what the prompts cost.
 */
import { costOf, unitPricesOf } from "#ledger/prices.ts";
import { type GatewayOptions, startGateway } from "./gateway.ts";

/** https://platform.claude.com/docs/en/about-claude/pricing: Claude Sonnet 4.6, in dollars. */
const prices = {
  inputPerMillion: 3,
  outputPerMillion: 15,
  cachedInputPerMillion: 0.3,
  cacheWritePerMillion: 3.75,
  images: [],
  tiers: [],
  serviceTiers: {},
};

const turnsOfSession = 20;
const nanosPerUnit = 1_000_000_000;

interface Usage {
  input_tokens: number;
  cache_read_input_tokens: number;
  cache_creation_input_tokens: number;
  output_tokens: number;
}

export interface SessionFigures {
  /** The part of the tokens that an earlier turn of the same session had cached. */
  readShare: number;
  /** All prompts, in dollars. */
  promptCost: number;
}

const marked = (text: string) => [{ type: "text", text, cache_control: { type: "ephemeral" } }];
const sentence = (index: number) => `Step ${index}: the file was read, and its lines are as follows. `.repeat(20);

/** A turn's marks are those of Claude Code: the system prompt and the last turn of the user. */
const bodyOf = (model: string, session: number, turns: number) => ({
  model,
  max_tokens: 64,
  system: marked(`You are agent ${session}. ${"Be exact, and say what you do. ".repeat(400)}`),
  messages: Array.from({ length: turns }, (_, index) => [
    { role: "user", content: index === turns - 1 ? marked(sentence(index)) : sentence(index) },
    ...(index === turns - 1 ? [] : [{ role: "assistant", content: `Done with ${index}.` }]),
  ]).flat(),
});

/** Plays the sessions at once, their turns one after another. */
export async function playAgentSessions(
  sessions: number,
  affinity: "session" | "off",
  processes?: GatewayOptions["processes"],
): Promise<SessionFigures> {
  await using gateway = await startGateway({
    ...(processes !== undefined && { processes }),
    workers: ["chat=64", "chat=64", "chat=64"],
    catalogue: `groups: { default: { models: ["*"] } }
upstreams:
  vendor: { dialect: anthropic-messages, baseUrl: "\${SIMULATOR_URL}/v1", credential: KEY_A, credentials: [KEY_B] }
models:
  - { id: agent, affinity: ${affinity}, prices: { inputPerMillion: 3, outputPerMillion: 15 }, route: [{ upstream: vendor, model: "sim-claude;prompt-cache;tokens=20" }] }
`,
    environment: { KEY_A: "a", KEY_B: "b" },
  });
  const usages = Array.from({ length: sessions }, (): Usage[] => []);
  const play = async (session: number, turns: number) => {
    const response = await fetch(`${gateway.url}/v1/messages`, {
      method: "POST",
      headers: {
        "x-api-key": gateway.key,
        "anthropic-version": "2023-06-01",
        "content-type": "application/json",
        "x-claude-code-session-id": `session-${session}`,
      },
      body: JSON.stringify(bodyOf("agent", session, turns)),
    });
    const answer = (await response.json()) as { usage: Usage };
    if (!response.ok) throw new Error(JSON.stringify(answer));
    usages[session]?.push(answer.usage);
  };
  const playAll = async (from: number, to: number) => {
    await Promise.all(
      usages.map(async (_, session) => {
        for (let turn = from; turn <= to; turn++) await play(session, turn);
      }),
    );
  };
  await playAll(1, turnsOfSession / 2);
  const second = playAll(turnsOfSession / 2 + 1, turnsOfSession);
  await gateway.workers[0]?.kill();
  await second;
  return figuresOf(usages);
}

function figuresOf(sessions: readonly (readonly Usage[])[]): SessionFigures {
  let cacheable = 0;
  let read = 0;
  let cost = 0n;
  for (const usages of sessions)
    for (const [index, usage] of usages.entries()) {
      const { input_tokens: plain, cache_read_input_tokens: cached, cache_creation_input_tokens: written } = usage;
      const before = usages[index - 1];
      if (before !== undefined) {
        cacheable += before.cache_read_input_tokens + before.cache_creation_input_tokens;
        read += Math.min(cached, before.cache_read_input_tokens + before.cache_creation_input_tokens);
      }
      const prompt = {
        inputTokens: plain + cached + written,
        cachedInputTokens: cached,
        cacheWriteTokens: written,
        outputTokens: 0,
        reasoningTokens: 0,
      };
      cost += costOf(unitPricesOf(prices, prompt), prompt, 1_000_000);
    }
  return { readShare: read / cacheable, promptCost: Number(cost) / nanosPerUnit };
}
