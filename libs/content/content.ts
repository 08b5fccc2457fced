/**
 * The content of a request and its answer, as it is stored for accounts that enable it, and its
 * sealed form.
 */
import { promisify } from "node:util";
import { deflateRaw, inflateRaw } from "node:zlib";
import { inflatedBytesMax } from "./bounds.ts";
import { type KeyPair, open, seal } from "./sealing.ts";

/** A body: of the request, or of the answer. */
export interface ContentBody {
  /** The media type; empty if there is none. */
  type: string;
  /**
   * Without images, audio and the like, in whose place their size stands. Empty for a type that is
   * not text.
   */
  text: string;
  /** The whole size. */
  bytes: number;
  /** The end is missing. */
  isCut: boolean;
}

export interface Content {
  dialect: string;
  operation: string;
  request: ContentBody;
  /** The HTTP status of the answer; 0 if there was none. */
  status: number;
  answer: ContentBody;
}

/** Whose content it is, in the clear. */
export interface ContentLabel {
  generationId: string;
  account: string;
  /** The account's public key that it is sealed for. */
  key: string;
  /** Epoch milliseconds. */
  receivedAt: number;
}

const deflate = promisify(deflateRaw);
const inflate = promisify(inflateRaw);

const nameOf = ({ generationId, account }: Pick<ContentLabel, "generationId" | "account">): string =>
  `${account} ${generationId}`;

export const sealContent = async (label: ContentLabel, content: Content): Promise<Buffer> =>
  seal(label.key, nameOf(label), await deflate(JSON.stringify(content)));

/** Undefined for what was not sealed with this label. */
export async function openContent(
  pair: KeyPair,
  label: Pick<ContentLabel, "generationId" | "account">,
  sealed: Buffer,
): Promise<Content | undefined> {
  const deflated = open(pair, nameOf(label), sealed);
  if (deflated === undefined) return undefined;
  return JSON.parse((await inflate(deflated, { maxOutputLength: inflatedBytesMax })).toString("utf8")) as Content;
}
