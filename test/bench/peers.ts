/**
 * The systems compared with Sluice: no proxy, nginx as a plain proxy, a plain proxy on Node, and
 * other gateways.
 */
import { spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
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

/** A gateway on Python; one worker process, its default. */
export async function startLitellm(upstreamUrl: string, models: readonly string[]): Promise<System | Absent> {
  const program = programOf("litellm");
  if (program === undefined) return { name: "litellm", absent: "not installed (pip install 'litellm[proxy]')" };
  const directory = await mkdtemp(join(tmpdir(), "sluice-bench-litellm-"));
  const config = join(directory, "config.json");
  const parametersOf = (model: string) => ({
    model: `openai/${model}`,
    api_base: `${upstreamUrl}/v1`,
    api_key: "bench",
  });
  await writeFile(
    config,
    JSON.stringify({ model_list: models.map((model) => ({ model_name: model, litellm_params: parametersOf(model) })) }),
  );
  const port = await freePort();
  const key = `sk-${randomBytes(24).toString("hex")}`;
  const child = spawn(
    program,
    ["--config", config, "--host", "127.0.0.1", "--port", String(port), "--telemetry", "False"],
    {
      cwd: directory,
      env: {
        PATH: process.env.PATH,
        HOME: directory,
        LITELLM_MASTER_KEY: key,
        LITELLM_LOG: "ERROR",
        LITELLM_LOCAL_MODEL_COST_MAP: "True",
      },
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  endWithBench(child);
  const url = `http://127.0.0.1:${port}`;
  await untilServing(url, child);
  const version = /\d+\.\d+\.\d+/.exec(spawnSync(program, ["--version"], { encoding: "utf8" }).stdout)?.[0] ?? "";
  return {
    name: "litellm",
    version: `LiteLLM ${version}, one worker`,
    urls: [url],
    headers: { authorization: `Bearer ${key}` },
    processes: [{ name: "gateway", pid: child.pid as number }],
    stop: async () => {
      await end(child);
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** A port that was free a moment ago. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}
