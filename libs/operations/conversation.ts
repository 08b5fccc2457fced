/** The common part of operations on conversations, for the worker: decoding and attachments. */

import type { Codec, Cut, Framing } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { type AttachmentAddress, remoteAttachmentsOf } from "#dialects/neutral/attachments.ts";
import { Refusal, refuse } from "#dialects/neutral/field-support.ts";
import type { NeutralRequest } from "#dialects/neutral/neutral.ts";
import { roughTokensOf } from "#dialects/neutral/usage-estimate.ts";
import { stopsOf } from "#dialects/neutral/within-bounds.ts";
import { canCut } from "#dialects/relay/stop-cutter.ts";
import { type AttachmentFinder, withAddresses } from "#dialects/relay/verbatim-attachments.ts";
import { addressesMax } from "./bounds.ts";
import type { PreparationTask, ResolveAddresses } from "./exchange.ts";

export const isConversation = (dialect: string): dialect is ConversationDialect =>
  conversationDialects.some((name) => name === dialect);

/**
 * The caller's own bytes, with the data of the attachments that the upstream does not fetch itself.
 */
export const ownBytesOf = ({ dialect, body }: Pick<PreparationTask, "dialect" | "body">, resolve: ResolveAddresses) =>
  withData(body, codecs[dialect].verbatim.attachmentFinder, resolve);

/**
 * The bytes with the data of the attachments that the upstream does not fetch itself, at the
 * addresses that the finder finds.
 */
export function withData(body: Buffer, finder: AttachmentFinder, resolve: ResolveAddresses): Buffer | Promise<Buffer> {
  const addresses: AttachmentAddress[] = [];
  withAddresses(body, finder, (address) => {
    if (addresses.length <= addressesMax) addresses.push(address);
    return undefined;
  });
  return addresses.length === 0 ? body : withResolved(body, finder, resolve(addresses));
}

async function withResolved(
  body: Buffer,
  finder: AttachmentFinder,
  resolving: ReturnType<ResolveAddresses>,
): Promise<Buffer> {
  const data = await resolving;
  if (!data.some((one) => one !== undefined)) return body;
  let place = 0;
  return withAddresses(body, finder, () => data[place++]);
}

/** Puts the data of attachments into a request. */
export async function resolveIn(request: NeutralRequest, resolve: ResolveAddresses): Promise<void> {
  const attachments = remoteAttachmentsOf(request);
  if (attachments.length === 0) return;
  const data = await resolve(attachments.map(({ part, url, path }) => ({ part, url, path })));
  for (const [place, { replace }] of attachments.entries()) {
    const fetched = data[place];
    if (fetched !== undefined) replace(fetched);
  }
}

/**
 * The stop sequences that the upstream does not end the answer at; undefined for none. Throws
 * Refusal for too many.
 */
export function cutOf(request: NeutralRequest, { spoken, target }: PreparationTask): Cut | undefined {
  const { settings } = request;
  if (settings.stop === undefined || !isConversation(spoken)) return undefined;
  const { cut: sequences } = stopsOf(settings, spoken, target);
  if (!canCut(sequences)) refuse(settings.stop.path, "has more or longer stop sequences than the gateway searches for");
  return sequences.length === 0 ? undefined : { sequences, inputTokens: roughTokensOf(request) };
}

/** True for stop sequences at which the upstream does not end an answer. */
export const hasSurplusStops = (request: NeutralRequest | undefined, { spoken, target }: PreparationTask): boolean =>
  request !== undefined && isConversation(spoken) && stopsOf(request.settings, spoken, target).cut.length > 0;

/** Undefined for a request that the neutral form cannot express. */
export function unlessRefused(decode: () => NeutralRequest): NeutralRequest | undefined {
  try {
    return decode();
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}

/** A request in the neutral form; an empty one if that cannot express it. */
export const readableRequestOf = (codec: Codec, body: Record<string, unknown>, framing: Framing) =>
  unlessRefused(() => codec.decodeRequest({ body, framing })) ?? { system: [], messages: [], tools: [], settings: {} };
