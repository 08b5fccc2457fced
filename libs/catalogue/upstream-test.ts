/** Tests of an upstream before it is in the catalogue, which a worker runs for control. */
import type { CatalogueUpstream } from "./catalogue.ts";
import type { Environment } from "./environment.ts";
import { parseCatalogue } from "./load.ts";
import { type Entry, emptyDocument } from "./stored.ts";

/** The name under which a typed credential is sealed for its test. */
export const typedCredentialName = "typed";

/** The kind of these calls of a worker. */
export const upstreamTestKind = "upstream-test";

export interface UpstreamTest {
  upstream: Entry;
  /** A credential that is not stored, sealed. Without it, the upstream names its own. */
  sealed?: string;
  /** The vendor's name of a model to call. Without it, only the free list of models is read. */
  model?: string;
}

export const testOutcomes = [
  "ok",
  "credential-refused",
  "no-balance",
  "no-access",
  "not-found",
  "rate-limited",
  "request-refused",
  "upstream-failed",
  "unreachable",
  "untrusted",
  "timeout",
  "address-refused",
  "unreadable",
] as const;
export type TestOutcome = (typeof testOutcomes)[number];

/** One call of a test. Texts of the vendor are cut, and never contain the credential. */
export interface TestedCall {
  outcome: TestOutcome;
  status: number | null;
  latencyMs: number;
  /** The vendor's words, or those of the network. */
  message: string | null;
}

/** A model as its vendor lists it. */
export interface OfferedModel {
  name: string;
  contextWindow: number | null;
  outputTokensMax: number | null;
}

export interface UpstreamTestResult {
  list: TestedCall & { models: OfferedModel[] };
  /** The call of a model; undefined without one. */
  call?: TestedCall & { answer: string | null };
}

const skeleton = Buffer.from('{ "groups": { "any": { "models": ["*"] } }, "upstreams": {}, "models": [] }');

/**
 * The upstream of a test, checked like one of the catalogue; undefined if it is not offered here.
 * Throws CatalogueFault.
 */
export function checkedUpstreamOf(upstream: Entry, environment: Environment): CatalogueUpstream | undefined {
  const stored = { number: 0, sha256: "", document: { ...emptyDocument, upstreams: { tested: upstream } } };
  return parseCatalogue(skeleton, "the upstream", environment, stored).upstreams.get("tested");
}
