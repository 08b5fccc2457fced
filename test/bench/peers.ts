/**
 * The systems compared with Sluice: no proxy, nginx as a plain proxy, a plain proxy on Node, and
 * other gateways.
 */
import { spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { freePort } from "../support/tcp.ts";
import { end, endWithBench, programOf, startScript, untilServing } from "./processes.ts";
import type { Absent, System } from "./system.ts";

/** The upstream itself, which every other system calls. */
export async function startUpstream(): Promise<System & { url: string }> {
  const { urls, pid, stop } = await startScript("test/bench/upstream.ts");
  const url = urls.api as string;
  return {
    name: "upstream",
    version: "none between",
    url,
    urls: [url],
    headers: {},
    processes: [{ name: "upstream", pid }],
    stop,
  };
}

export async function startDirect(upstreamUrl: string): Promise<System> {
  const { urls, pid, stop } = await startScript("test/bench/direct-proxy.ts", { UPSTREAM_URL: upstreamUrl });
  return {
    name: "direct",
    version: `Fastify and undici, Node ${process.versions.node}`,
    urls: [urls.api as string],
    headers: {},
    processes: [{ name: "proxy", pid }],
    stop,
  };
}

export async function startNginx(upstreamUrl: string): Promise<System | Absent> {
  const program = programOf("nginx");
  if (program === undefined) return { name: "nginx", absent: "not installed (apt-get install nginx-light)" };
  const directory = await mkdtemp(join(tmpdir(), "sluice-bench-nginx-"));
  const port = await freePort();
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `${name}_temp_path ${directory}/${name};`)
    .join(" ");
  await writeFile(
    join(directory, "nginx.conf"),
    `daemon off; worker_processes 1; worker_rlimit_nofile 40000; pid ${directory}/nginx.pid; error_log ${directory}/error.log warn;
${process.getuid?.() === 0 ? "user root;" : ""}
events { worker_connections 40000; }
http {
  access_log off; ${temporary}
  client_max_body_size 0; client_body_buffer_size 16m; keepalive_requests 1000000; keepalive_timeout 120s;
  upstream bench { server ${new URL(upstreamUrl).host}; keepalive 2048; keepalive_requests 1000000; }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location / {
      proxy_pass http://bench; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; proxy_request_buffering off;
    }
  }
}
`,
  );
  const child = spawn(program, ["-p", directory, "-c", join(directory, "nginx.conf")], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  endWithBench(child);
  const url = `http://127.0.0.1:${port}`;
  await untilServing(url, child);
  const version = /nginx\/\S+/.exec(spawnSync(program, ["-v"], { encoding: "utf8" }).stderr)?.[0] ?? "nginx";
  return {
    name: "nginx",
    version: `${version}, one process, plain proxy`,
    urls: [url],
    headers: {},
    processes: [{ name: "nginx", pid: child.pid as number }],
    stop: async () => {
      await end(child);
      await rm(directory, { recursive: true, force: true });
    },
  };
}

const portkey = { name: "@portkey-ai/gateway", version: "1.15.2" };
/** The newest version with which that Portkey can stream; later ones fail with "immutable". */
const portkeyServer = { name: "@hono/node-server", version: "1.14.0" };

/**
 * Another gateway on Node, from npm into a directory beside the system's other temporary files,
 * where the next run finds it.
 */
export async function startPortkey(upstreamUrl: string): Promise<System | Absent> {
  const directory = join(tmpdir(), `sluice-bench-portkey-${portkey.version}-${portkeyServer.version}`);
  const program = join(directory, "node_modules", portkey.name, "build", "start-server.js");
  if (!existsSync(program)) {
    await mkdir(directory, { recursive: true });
    await writeFile(
      join(directory, "package.json"),
      JSON.stringify({ private: true, overrides: { [portkeyServer.name]: portkeyServer.version } }),
    );
    const args = ["install", "--no-audit", "--no-fund", "--ignore-scripts", `${portkey.name}@${portkey.version}`];
    const installed = spawnSync("npm", args, { cwd: directory, encoding: "utf8", timeout: 300_000 });
    if (installed.status !== 0) return { name: "portkey", absent: "npm could not install it" };
  }
  const { version } = JSON.parse(
    await readFile(join(directory, "node_modules", portkey.name, "package.json"), "utf8"),
  ) as { version: string };
  const port = await freePort();
  const child = spawn(process.execPath, [program, `--port=${port}`, "--headless"], {
    cwd: directory,
    env: { PATH: process.env.PATH, NODE_ENV: "production", TRUSTED_CUSTOM_HOSTS: "127.0.0.1" },
    stdio: ["ignore", "ignore", "pipe"],
  });
  endWithBench(child);
  const url = `http://127.0.0.1:${port}`;
  await untilServing(url, child);
  return {
    name: "portkey",
    version: `Portkey ${version} (${portkeyServer.name} ${portkeyServer.version}), Node ${process.versions.node}`,
    urls: [url],
    headers: {
      authorization: "Bearer bench",
      "x-portkey-provider": "openai",
      "x-portkey-custom-host": `${upstreamUrl}/v1`,
    },
    processes: [{ name: "gateway", pid: child.pid as number }],
    stop: () => end(child),
  };
}

interface GatewayPlace {
  /** The upstream with /v1. */
  baseUrl: string;
  models: readonly string[];
  port: number;
  /** The key of its callers. */
  key: string;
}

/** How to run a gateway: each starts in an empty directory of its own. */
interface Gateway {
  title: string;
  install: string;
  versionArgs: string[];
  /** Files of its working directory, by name. */
  files(place: GatewayPlace): Record<string, string>;
  args(place: GatewayPlace): string[];
  environment(place: GatewayPlace): Record<string, string>;
  pathPrefix?: string;
}

/** JSON is YAML as well. */
const gateways = {
  /** Python; one worker process is its default. */
  litellm: {
    title: "LiteLLM, one worker",
    install: "pip install 'litellm[proxy]'",
    versionArgs: ["--version"],
    files: ({ baseUrl, models }) => {
      const parametersOf = (model: string) => ({ model: `openai/${model}`, api_base: baseUrl, api_key: "bench" });
      const list = models.map((model) => ({ model_name: model, litellm_params: parametersOf(model) }));
      return { "config.json": JSON.stringify({ model_list: list }) };
    },
    args: ({ port }) => [
      ...["--config", "config.json", "--host", "127.0.0.1", "--port", String(port), "--telemetry", "False"],
    ],
    environment: ({ key }) => ({
      LITELLM_MASTER_KEY: key,
      LITELLM_LOG: "ERROR",
      LITELLM_LOCAL_MODEL_COST_MAP: "True",
    }),
  },
  gomodel: {
    title: "GoModel with its defaults",
    install: "https://github.com/ENTERPILOT/GoModel",
    versionArgs: ["--version"],
    files: ({ baseUrl, models }) => {
      const openai = { type: "openai", api_key: "bench", base_url: baseUrl, models };
      return { "config.yaml": JSON.stringify({ providers: { openai } }) };
    },
    args: () => [],
    environment: ({ port, key }) => ({ PORT: String(port), GOMODEL_MASTER_KEY: key, GOMODEL_OFFLINE: "true" }),
  },
  bifrost: {
    title: "Bifrost with its defaults",
    install: "https://github.com/maximhq/bifrost",
    versionArgs: ["-version"],
    files: ({ baseUrl, models }) => {
      const keys = [{ name: "bench", value: "bench", models, weight: 1 }];
      const openai = { keys, network_config: { base_url: baseUrl.replace(/\/v1$/, "") } };
      return { "config.json": JSON.stringify({ providers: { openai }, config_store: { enabled: false } }) };
    },
    args: ({ port }) => ["-app-dir", ".", "-host", "127.0.0.1", "-port", String(port)],
    environment: () => ({}),
    pathPrefix: "/openai",
  },
} satisfies Record<string, Gateway> as Record<string, Gateway>;

export const gatewayNames = Object.keys(gateways);

/** Another gateway: this program, or the one of its name on PATH. */
export async function startGateway(
  name: string,
  path: string | undefined,
  upstreamUrl: string,
  models: readonly string[],
): Promise<System | Absent> {
  const gateway = gateways[name] as Gateway;
  const program = path === undefined ? programOf(name) : resolve(path);
  if (program === undefined) return { name, absent: `not installed (${gateway.install}); --${name} names its program` };
  const directory = await mkdtemp(join(tmpdir(), `sluice-bench-${name}-`));
  const key = `sk-${randomBytes(24).toString("hex")}`;
  const place: GatewayPlace = { baseUrl: `${upstreamUrl}/v1`, models, port: await freePort(), key };
  for (const [file, text] of Object.entries(gateway.files(place))) await writeFile(join(directory, file), text);
  const child = spawn(program, gateway.args(place), {
    cwd: directory,
    env: { PATH: process.env.PATH, HOME: directory, ...gateway.environment(place) },
    stdio: ["ignore", "ignore", "pipe"],
  });
  endWithBench(child);
  const url = `http://127.0.0.1:${place.port}`;
  await untilServing(url, child);
  const { stdout } = spawnSync(program, gateway.versionArgs, { encoding: "utf8", cwd: directory, timeout: 30_000 });
  return {
    name,
    version: `${gateway.title} ${/\d+\.\d+\.\d+/.exec(stdout)?.[0] ?? ""}`.trim(),
    urls: [url],
    headers: { authorization: `Bearer ${key}` },
    ...(gateway.pathPrefix && { pathPrefix: gateway.pathPrefix }),
    processes: [{ name: "gateway", pid: child.pid as number }],
    stop: async () => {
      await end(child);
      await rm(directory, { recursive: true, force: true });
    },
  };
}
