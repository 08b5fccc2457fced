/**
 * What Anthropic's models take and refuse, as far as requests must be shaped for it. Told by the name, wherever it is served: `claude-sonnet-4-5-20250929`,
 * `anthropic.claude-sonnet-4-5-20250929-v1:0`, `claude-sonnet-4-5@20250929` and `anthropic/claude-sonnet-4.5` are one model.
 *
 *     version            thinking   sampling   formats   off, forced calls       system turns   xhigh
 *     to 3.5             none       yes        no        yes                     no
 *     3.7, 4.0           budget     yes        no        yes                     no
 *     4.1 to 4.5         budget     yes, one   yes       yes                     no
 *     4.6                adaptive   yes, one   yes       yes                     no             no
 *     4.7, 4.8           adaptive   no         yes       yes                     no             yes
 *     5                  adaptive   no         yes       yes, but not Fable's    yes            yes
 *     5.5 and later      adaptive   no         yes       Haiku's only            yes            yes
 *     other vendors'     adaptive   yes        yes       yes                     no             yes
 */
export interface ModelTraits {
  /** How it is told to think: by a number of tokens (`budget`), as much as it sees fit for an effort (`adaptive`), or not at all. */
  thinking: "none" | "budget" | "adaptive";
  /** Thinking can't be switched off, and so no call of a tool can be forced. */
  thinksAlways: boolean;
  /** It may think unasked: where it must not, it is told so. */
  thinksByDefault: boolean;
  /** `temperature`, `top_p` and `top_k`. */
  takesSampling: boolean;
  /** It refuses `temperature` and `top_p` in one request. */
  takesOneSampling: boolean;
  /** `output_config.format`. */
  takesFormats: boolean;
  /** Instructions in the middle of a conversation, as messages of their own. */
  takesSystemTurns: boolean;
  /** The effort `xhigh`. */
  takesExtraHigh: boolean;
}

const versioned = /claude-(?:([a-z]+)-)?(\d+)(?:-(\d{1,2}))?(?!\d)/;

/** Traits of the model that an upstream knows by this name; of an unknown one of Anthropic's, those of the newest. */
export function traitsOf(model: string): ModelTraits {
  const name = model.toLowerCase().replaceAll(".", "-");
  if (!name.includes("claude"))
    return {
      thinking: "adaptive",
      thinksAlways: false,
      thinksByDefault: false,
      takesSampling: true,
      takesOneSampling: false,
      takesFormats: true,
      takesSystemTurns: false,
      takesExtraHigh: true,
    };
  const [, family = "", major, minor = "0"] = versioned.exec(name) ?? [];
  const version = major === undefined ? Number.POSITIVE_INFINITY : Number(major) * 100 + Number(minor);
  return {
    thinking: version < 307 ? "none" : version <= 405 ? "budget" : "adaptive",
    thinksAlways: version >= 500 && (/fable|mythos/.test(name) || (version >= 505 && family !== "haiku")),
    thinksByDefault: version >= 500,
    takesSampling: version <= 406,
    takesOneSampling: version >= 401,
    takesFormats: version >= 401,
    takesSystemTurns: version >= 500,
    takesExtraHigh: version >= 407,
  };
}
