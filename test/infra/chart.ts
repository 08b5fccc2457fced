/** The Helm chart's files, and what runs without Helm. */
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { root } from "./compose.ts";

export const chart = `${root}infra/kubernetes/sluice`;

export type Json = string | number | boolean | null | Json[] | { [name: string]: Json };
/** An object of Kubernetes. */
export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; labels?: Record<string, string> };
  // biome-ignore lint/suspicious/noExplicitAny: objects of fifteen kinds, checked against their schemas
  spec?: any;
  data?: Record<string, string>;
}

export const chartText = (file: string) => readFileSync(`${chart}/${file}`, "utf8");
export const valuesSchema = JSON.parse(chartText("values.schema.json")) as Record<string, Json>;
export const defaultValues = parse(chartText("values.yaml")) as Record<string, Json>;
/** Every variable that docs/reference.md describes. */
export const documentedVariables = new Set(
  [...readFileSync(`${root}docs/reference.md`, "utf8").matchAll(/^\| `([A-Z][A-Z0-9_]+)` \|/gm)].map(
    ([, name]) => name!,
  ),
);
