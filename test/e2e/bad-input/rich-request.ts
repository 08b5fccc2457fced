/**
 * A valid request with most of the fields that its endpoint has: what is changed in it, one field
 * at a time, is bad input.
 */
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { modelOf } from "../../clients/support.ts";
import { png } from "../../support/png.ts";

export type Body = Record<string, unknown>;

export interface RichRequest {
  /** The endpoint's. */
  dialect: ConversationDialect;
  pathOf(model: string): string;
  bodyOf(model: string): Body;
  /** The models that are asked: the first speaks the endpoint's own format. */
  models: readonly string[];
  /**
   * Fields that the gateway checks in a request to an upstream of the endpoint's own format;
   * without it, all fields that it knows.
   */
  readHere?: RegExp;
  /** Fields that an upstream can't be given, by model. */
  without?: Record<string, readonly string[]>;
  /** Paths below which any value is the caller's own affair. */
  opaque?: RegExp;
  /** Values of another type that are good as well: path and type, as in `stop string`. */
  alsoGood?: RegExp;
  /** Fields with values that are out of their range, or contradict what stands beside them. */
  outOfRange: readonly (readonly [path: string, ...values: unknown[]])[];
  /**
   * Likewise, but for the upstream to say where it speaks the endpoint's own format: words that a
   * vendor may add to, and what belongs together.
   */
  unsuitable?: readonly (readonly [path: string, ...values: unknown[]])[];
}

/** Models of every dialect, the endpoint's own first. */
export const modelsFor = (dialect: ConversationDialect): string[] =>
  [dialect, ...conversationDialects.filter((other) => other !== dialect)].map((one) => modelOf(one));

export const pngUrl = `data:image/png;base64,${png.toString("base64")}`;
export const pdf = Buffer.from("%PDF-1.4\n%%EOF\n").toString("base64");
export const pdfUrl = `data:application/pdf;base64,${pdf}`;
export const schema = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
