/**
 * Removes secrets, accounts and addresses of the gateway's operator from an upstream's messages.
 */
import { isIPv6 } from "node:net";

/** Replaces removed text. */
const gone = "…";

/**
 * Every pattern begins with a fixed text, or cannot begin inside a run of its own characters, so
 * that all of them take linear time.
 */
const secrets: readonly RegExp[] = [
  // Keys of model vendors and cloud platforms, also masked ones: a prefix that is not a word.
  /(?<![A-Za-z0-9])sk-[\w*.-]{7,}[\w*]/g,
  /(?<![A-Za-z0-9])(?:pk|rk)-[\w*-]{12,}/g,
  /(?<![A-Za-z0-9])(?:sk|pk|rk)_(?:live|test)_\w{8,}/g,
  /(?<![A-Za-z0-9])(?:gsk|hf|r8|fw|tgp_v1|gh[opsur]|github_pat)_[\w*-]{0,4}(?=[a-z]{0,99}[A-Z0-9*])[A-Za-z0-9*-]{8,}/g,
  /(?<![A-Za-z0-9])(?:xai|nvapi|pplx|csk|glpat|sess|xox[abprs]|bedrock-api-key)-(?=[A-Za-z*]{0,99}[\d*])[\w*-]{8,}/g,
  /(?<![A-Za-z0-9])key-(?=[a-z]{0,99}\d)[A-Za-z0-9]{16,}/g,
  /(?<![A-Za-z0-9])(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}/g,
  /(?<![A-Za-z0-9])AIza[\w*-]{8,}/g,
  /(?<![A-Za-z0-9])(?:ya29|AQ)\.[\w.-]{12,}/g,
  /(?<![A-Za-z0-9])ABSK[A-Za-z0-9+/=]{16,}/g,
  /(?<![A-Za-z0-9])eyJ[\w-]{8,}(?:\.[\w-]*){0,4}/g,
  // Account ids.
  /(?<![A-Za-z0-9])(?:org|proj|acct|user)[-_](?:(?=[A-Za-z]{0,99}\d)[A-Za-z0-9]{6,}|(?=[a-z]{0,99}[A-Z])[A-Za-z]{20,})/g,
  /(?<![A-Za-z0-9])arn:aws[^\s"'<>`,]+/g,
  /(?<![\w/-])projects\/[\w.:-]*\w/g,
  // Keys without a prefix: no word is that long and contains digits. Ids with a prefix stay.
  /(?<![\w-])(?=[A-Za-z]{0,99}\d)(?=\d{0,99}[A-Za-z])[A-Za-z0-9]{32,}(?![\w-])/g,
];

/** A secret or an account id after its label. */
const labelledSecret =
  /\b(bearer|basic|authorization|api[-_ ]?key|access[-_ ]?key|secret|token|password|passwd|credential)(["'`]?\s{0,3}[:=]\s{0,3}["'`]?|\s{1,3})([^\s"'`,;()<>]{6,})/gi;
const labelledAccount =
  /\b(team|organi[sz]ation|org|project|account|workspace|tenant|subscription|customer|consumer|key)((?:[ _-]?(?:id|number))?["'`]?\s{0,2}[:=#]?\s{0,2}["'`]?)([0-9a-f]{8}-[0-9a-f-]{9,27}|\d{6,})/gi;

const urls = /\b[a-z][a-z0-9+.-]{0,20}:\/\/[^\s"'<>`]*[^\s"'<>`.,;:)\]}]/gi;
const ipv6 =
  /(?<![\w:.])\[?((?:[0-9a-f]{0,4}:){2,7}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9a-f]{1,4})?)(?:%[\w.-]{1,20})?(?![\w:])(?:\](?::\d{1,5})?)?/gi;
const ipv4 = /(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?(?![\w])/g;
/** A run that may be a host, an e-mail address or a masked key, with an optional port. */
const words = /[\w.@+*~-]+(?::\d{2,5}(?![\w:.]*\w))?/g;
/** A name without dots counts as an address only next to a port and a word that says so. */
const namedPorts =
  /\b(tcp|host|upstream|server|backend|address|ECONNREFUSED|(?:connect|connecting|connected) to)(\s{1,3})[a-z][\w-]{0,62}:\d{2,5}\b/gi;

/** The text without secrets, accounts' ids and addresses. Takes linear time. */
export function scrubbed(text: string): string {
  let left = text.replaceAll(urls, gone);
  left = left.replaceAll(labelledSecret, (all, label: string, between: string, value: string) =>
    isRandom(value, between) ? `${label}${between}${gone}` : all,
  );
  for (const pattern of secrets) left = left.replaceAll(pattern, gone);
  return left
    .replaceAll(labelledAccount, `$1$2${gone}`)
    .replaceAll(ipv6, (all, address: string) => (isIPv6(address) && /\d/.test(address) ? gone : all))
    .replaceAll(ipv4, gone)
    .replaceAll(namedPorts, `$1$2${gone}`)
    .replaceAll(words, (word) => (isMasked(word) || isAddress(word) ? gone : word));
}

/** Words have no digits between their letters; after a mere space, an ordinary word may follow. */
const isRandom = (value: string, between: string) =>
  value.includes("**") || (/[A-Za-z]/.test(value) && /\d/.test(value) && (between.trim() !== "" || value.length >= 8));

const isMasked = (word: string) => word.includes("***") && /[A-Za-z0-9]/.test(word);

/**
 * Top-level domains, public and private. File extensions (`.py`, `.rs`, `.sh`) are not among them.
 */
const zones = new Set(
  (
    "com net org io ai dev app cloud co tv edu gov mil info biz tech xyz us uk eu de fr nl ch at be se dk fi es pt ie cz jp kr cn hk tw sg au nz ca br mx ru ua il tr ir vn th " +
    "corp internal local localdomain localhost lan home intra intranet private svc arpa test example invalid"
  ).split(" "),
);
/** Private zones: a name in one is an address in upper case, too. */
const privateZones = new Set("corp internal local localdomain localhost lan intra intranet svc arpa".split(" "));
const fileEndings = new Set(
  "ts tsx js jsx mjs cjs py rs go java kt c cc cpp h hpp rb php cs swift sh md txt json jsonl yaml yml toml xml html css csv pdf png jpg jpeg gif webp svg mp3 mp4 wav log sql lua".split(
    " ",
  ),
);
/** First names in the path of a request field. */
const fieldRoots = new Set(
  (
    "messages message contents content system systemInstruction system_instruction input output tools tool tool_choice tool_config toolConfig functions function arguments parameters " +
    "properties schema metadata body params config generationConfig generation_config safetySettings response_format text reasoning stream_options extra_body items data request"
  ).split(" "),
);

function isAddress(word: string): boolean {
  const at = word.lastIndexOf("@");
  if (at > 0) return /^[a-z][\w.+-]*@[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}\.?$/i.test(word);
  const [name = "", port] = word.split(":");
  const host = name.replace(/^[.~+*-]+|\.+$/g, "");
  const labels = host.split(".");
  const zone = labels.at(-1)?.toLowerCase() ?? "";
  if (labels.length === 1)
    return zone === "localhost" || (port !== undefined && port.length >= 4 && /^[a-z][a-z0-9-]*\d$/i.test(host));
  if (labels.includes("") || !/^[a-z]/.test(zone) || !/^[\w.-]+$/.test(host) || fileEndings.has(zone)) return false;
  if (port !== undefined) return labels.every((label) => /[a-z]/i.test(label));
  if (!zones.has(zone) || host.includes("_") || fieldRoots.has(labels[0] ?? "")) return false;
  return (privateZones.has(zone) || host === host.toLowerCase()) && !labels.some((label) => /^\d+$/.test(label));
}
