/**
 * Makes a text that matches a regular expression (ECMA-262) of literals, classes, groups,
 * alternatives, quantifiers and anchors.
 */

/**
 * Unbounded quantifiers repeat as often as required, and at most this much more to reach a length.
 */
const repeatsMax = 1_000;

const lettersOfClass: Record<string, string> = {
  d: "7",
  w: "a",
  s: " ",
  D: "x",
  W: "-",
  S: "a",
  n: "\n",
  t: "\t",
  r: "\r",
};

/**
 * Undefined if the pattern uses unsupported syntax (look-around, back references, property classes)
 * or exceeds the bounds.
 */
export function textMatching(pattern: string, lengthMin: number): string | undefined {
  const least = generate(pattern, 0);
  if (least === undefined || least.length >= lengthMin) return least;
  return generate(pattern, Math.min(repeatsMax, lengthMin));
}

/** Repeats unbounded quantifiers `more` times beyond their minimum. */
function generate(pattern: string, more: number): string | undefined {
  let at = 0;
  let failed = false;
  const fail = () => {
    failed = true;
    at = pattern.length;
    return "";
  };

  /** The first alternative; the others are parsed and ignored. */
  const alternatives = (depth: number): string => {
    if (depth > 20) return fail();
    const first = sequence(depth);
    while (!failed && pattern[at] === "|") {
      at++;
      sequence(depth);
    }
    return first;
  };

  const sequence = (depth: number): string => {
    let text = "";
    while (at < pattern.length && pattern[at] !== "|" && pattern[at] !== ")") {
      const one = atom(depth);
      const times = quantifier();
      if (text.length + one.length * times > 10_000) return fail();
      text += one.repeat(times);
    }
    return text;
  };

  const atom = (depth: number): string => {
    const character = pattern[at++] as string;
    if (character === "^" || character === "$") return "";
    if (character === ".") return "a";
    if (character === "[") return classText();
    if (character === "\\") return escaped();
    if (/[*+?]/.test(character)) return fail();
    if (character !== "(") return character;
    if (pattern[at] === "?") {
      const opening = /^\?(?::|<[A-Za-z_]\w*>)/.exec(pattern.slice(at, at + 60));
      if (!opening) return fail();
      at += opening[0].length;
    }
    const text = alternatives(depth + 1);
    if (pattern[at++] !== ")") return fail();
    return text;
  };

  const escaped = (): string => {
    const character = pattern[at++];
    if (character === undefined || /[1-9pPkcux]/.test(character)) return fail();
    if (character === "b" || character === "B") return "";
    return lettersOfClass[character] ?? character;
  };

  const classText = (): string => {
    const end = classEnd(pattern, at);
    if (end === undefined) return fail();
    const inside = pattern.slice(at, end);
    at = end + 1;
    if (!inside.startsWith("^"))
      return inside.startsWith("\\") ? (lettersOfClass[inside[1] ?? ""] ?? inside[1] ?? fail()) : (inside[0] ?? fail());
    let excluded: RegExp;
    try {
      excluded = new RegExp(`[${inside.slice(1)}]`);
    } catch {
      return fail();
    }
    return ["a", "7", "A", "-", " ", "_", "é"].find((candidate) => !excluded.test(candidate)) ?? fail();
  };

  const quantifier = (): number => {
    const match = /^(?:[*+?]|\{(\d{1,4})(,?)(\d{0,4})\})\??/.exec(pattern.slice(at, at + 14));
    if (!match) return 1;
    at += match[0].length;
    if (match[0].startsWith("*")) return more;
    if (match[0].startsWith("+")) return 1 + more;
    if (match[0].startsWith("?")) return 0;
    const least = Number(match[1]);
    const most = match[2] === "" ? least : match[3] === "" ? least + more : Number(match[3]);
    return Math.min(most, least + more, repeatsMax);
  };

  const text = alternatives(0);
  return failed || at < pattern.length ? undefined : text;
}

function classEnd(pattern: string, from: number): number | undefined {
  for (let at = pattern[from] === "^" ? from + 1 : from; at < pattern.length; at++) {
    if (pattern[at] === "\\") at++;
    else if (pattern[at] === "]") return at;
  }
  return undefined;
}
