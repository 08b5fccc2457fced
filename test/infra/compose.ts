import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";

interface Service {
  image: string;
  command?: string[];
  user?: string;
  read_only?: boolean;
  tmpfs?: string[];
  cap_drop?: string[];
  security_opt?: string[];
  mem_limit?: string;
  ulimits?: { nofile: number };
  entrypoint?: string[];
  environment?: Record<string, string>;
  env_file?: { path: string; required: boolean }[];
  healthcheck?: { test: string[] };
  depends_on?: Record<string, { condition: string }>;
  deploy?: { replicas: number };
  stop_grace_period?: string;
  volumes?: (string | { source: string; target: string })[];
  profiles?: string[];
  networks?: string[] | Record<string, { ipv4_address: string }>;
  logging?: { driver: string; options: Record<string, string> };
}

/** The path of the checkout, with a slash at the end. */
export const root = fileURLToPath(new URL("../..", import.meta.url));
export const textOf = (file: string) => readFileSync(`${root}${file}`, "utf8");
export const { services, networks } = parse(textOf("docker-compose.yml"), { merge: true }) as {
  services: Record<string, Service>;
  networks: Record<string, { ipam?: { config: { subnet: string }[] } }>;
};
/** The services that run one of this gateway's roles. */
export const roles = Object.entries(services).filter(
  ([, { command, image }]) => image.startsWith("sluice:") && command?.[0] === "node",
) as [string, Service & { command: string[]; environment: Record<string, string> }][];
