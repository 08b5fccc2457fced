import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, globSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import ipaddr from "ipaddr.js";
import { loadCatalogue } from "#catalogue/load.ts";
import { type Setting, serviceSettings } from "#service/config.ts";
import { connectRedis } from "#service/redis.ts";
import { tracingSettings } from "#tracing/config.ts";
import { findRedisProgram } from "../../apps/cli/redis-program.ts";
import { roleCommands } from "../../apps/cli/roles.ts";
import { controlConfigOf, controlSettings, installationSettings } from "../../apps/control/config.ts";
import { ingressSettings } from "../../apps/ingress/common/config.ts";
import { workerSettings } from "../../apps/worker/config.ts";
import { until } from "../cli/gateway.ts";
import { freePort } from "../support/tcp.ts";
import { networks, roles, root, services, textOf } from "./compose.ts";

test("every role uses npm start's command, from one image, with separate chat and image workers", () => {
  assert.deepEqual(
    roles.map(([name, { command }]) => [name, command.join(" ")]),
    [
      ["ingress", "node apps/ingress/main.ts"],
      ["worker-chat", "node apps/worker/main.ts --queues chat=512"],
      ["worker-image", "node apps/worker/main.ts --queues image=8,audio=32,realtime=64,*=8"],
      ["control", "node apps/control/main.ts"],
      ["simulator", "node apps/simulator/main.ts"],
    ],
  );
  const programs = Object.values(roleCommands).map(([file]) => file);
  for (const [, { command, image }] of roles) {
    assert.ok(programs.includes(command[1]!));
    assert.equal(image, roles[0]![1].image);
  }
  assert.equal(services.ingress?.deploy?.replicas, 2);
  assert.ok(
    (services["worker-chat"]?.deploy?.replicas ?? 0) >= 1 && (services["worker-image"]?.deploy?.replicas ?? 0) >= 1,
  );
});

test("every service restarts, has a health check, starts after its dependencies, and has time to drain", () => {
  for (const [name, service] of Object.entries(services)) {
    if (service.profiles) continue;
    assert.ok(service.healthcheck, `${name} has a health check`);
    for (const [needed, { condition }] of Object.entries(service.depends_on ?? {})) {
      assert.equal(condition, "service_healthy", `${name} waits for ${needed}`);
      assert.ok(services[needed]?.healthcheck);
    }
  }
  assert.deepEqual(Object.keys(services.proxy?.depends_on ?? {}), ["ingress"]);
  for (const [name, { environment, stop_grace_period: grace = "" }] of roles) {
    const drainMs = Number(environment.DRAIN_MS ?? 0) + Number(environment.DRAIN_NOTICE_MS ?? 0);
    assert.ok(Number.parseInt(grace, 10) * 1_000 >= drainMs + 5_000, `${name} may drain for longer than it is given`);
    const needed = name === "control" ? ["valkey", "postgres"] : ["valkey"];
    if (name !== "simulator") assert.deepEqual(Object.keys(services[name]?.depends_on ?? {}), needed);
  }
});

test("environment variables are ones that the processes read, and only workers get credentials", () => {
  const sources = [
    ...globSync("apps/{ingress,worker,control,simulator}/**/*.ts", { cwd: root }),
    ...globSync("libs/**/*.ts", { cwd: root }),
  ]
    .map(textOf)
    .join("\n");
  const catalogue = loadCatalogue(`${root}catalogue.yaml`, {
    ...process.env,
    OPENAI_API_KEY: "any",
    ANTHROPIC_API_KEY: "any",
    GEMINI_API_KEY: "any",
    SIMULATOR_URL: "http://127.0.0.1:1",
  });
  const credentials = [...catalogue.upstreams.values()].flatMap(({ credential }) => credential ?? []);
  const substituted = [...textOf("catalogue.yaml").matchAll(/\$\{(\w+)/g)].map(([, name]) => name!);
  assert.ok(credentials.length > 0);
  for (const [name, { environment }] of roles) {
    for (const setting of Object.keys(environment)) {
      if (!credentials.includes(setting) && !substituted.includes(setting))
        assert.match(sources, new RegExp(`\\b${setting}\\b`), `${name} reads ${setting}`);
    }
    for (const credential of credentials) {
      const expected = name.startsWith("worker")
        ? `\${${credential}:-}`
        : name === "ingress" || name === "control"
          ? `\${${credential}:+configured}`
          : undefined;
      assert.equal(environment[credential], expected, `${credential} of ${name}`);
    }
  }
  assert.match(services["worker-chat"]!.environment!.REDIS_URL!, /REDIS_PASSWORD:\?/);
  for (const [name, { environment = {} }] of Object.entries(services)) {
    assert.equal(environment.DATABASE_URL !== undefined, name === "control", name);
    // Optional: a secret that appears later would end all sessions and second factors.
    for (const setting of ["AUTH_SECRET", "CONTROL_URL"])
      assert.equal(environment[setting], name === "control" ? `\${${setting}:-}` : undefined, `${setting} of ${name}`);
    assert.equal(environment.INTERNAL_SECRET !== undefined, name === "control" || name === "ingress", name);
    assert.equal(environment.CREDENTIALS_SECRET !== undefined, name === "control" || name.startsWith("worker"), name);
    assert.equal(environment.OPERATOR_TOKEN !== undefined, name === "control" || name === "keys", name);
  }
});

test("every setting of a role is fixed here, comes from .env, or can be in the role's file of settings", () => {
  const tables = { ingress: ingressSettings, control: controlSettings, worker: workerSettings };
  /** Settings that other values of this file depend on. */
  const fixed: Record<keyof typeof tables, string[]> = {
    ingress: [
      ...["HOST", "PORT", "DRAIN_NOTICE_MS", "DRAIN_MS", "CONTROL_INTERNAL_URL"],
      ...["OPERATIONS_HOST", "OPERATIONS_PORT", "SLUICE_CATALOGUE", "USAGE_DIRECTORY"],
    ],
    control: [
      ...["CONTROL_HOST", "CONTROL_PORT", "CONTROL_INTERNAL_ADDRESS", "INGRESS_URL", "FILES_DIRECTORY"],
      ...["OPERATIONS_HOST", "OPERATIONS_PORT", "SLUICE_CATALOGUE", "USAGE_DIRECTORY"],
    ],
    worker: ["DRAIN_MS", "OPERATIONS_HOST", "OPERATIONS_PORT", "SLUICE_CATALOGUE", "USAGE_DIRECTORY"],
  };
  for (const [service, { environment, env_file: files = [] }] of roles) {
    const role = service.replace(/-.*/, "") as keyof typeof tables;
    if (tables[role] === undefined) continue;
    const directory = "$" + "{SETTINGS_DIRECTORY:-./settings}";
    assert.deepEqual(
      files,
      ["all", role].map((name) => ({ path: `${directory}/${name}.env`, required: false })),
    );
    const variables = [serviceSettings, tracingSettings, tables[role]].flatMap((table) =>
      Object.values(table).map(({ variable }: Setting<unknown>) => variable),
    );
    const constants = variables.filter(
      (name) => environment[name] !== undefined && !environment[name].includes("$" + "{"),
    );
    assert.deepEqual(constants.sort(), fixed[role].sort(), service);
  }
});

test("a setting that .env leaves out has its default, and the console may change it", () => {
  const defaults = Object.fromEntries(
    Object.entries(services.control!.environment!).map(([name, value]) => [
      name,
      value.replaceAll(/\$\{\w+:[-?]([^}]*)\}/g, (_, other: string) => (other.startsWith("run ") ? "x" : other)),
    ]),
  );
  const config = controlConfigOf({ ...defaults, OPERATOR_TOKEN: "x".repeat(32) });
  assert.equal(config.usageExport, "");
  assert.deepEqual(
    Object.values(installationSettings)
      .map(({ variable }) => variable)
      .filter((name) => defaults[name]),
    ["GATEWAY_URL"],
  );
});

test("ingresses trust the proxy's address, and nobody else is in its network", () => {
  const defaultOf = (text: string) => /^\$\{\w+:-(.+)\}$/.exec(text)?.[1] ?? assert.fail(text);
  const proxy = services.proxy!.networks as Record<string, { ipv4_address: string }>;
  const address = defaultOf(proxy.front!.ipv4_address);
  assert.equal(defaultOf(services.ingress!.environment!.TRUSTED_PROXIES!), address);
  const network = ipaddr.parseCIDR(defaultOf(networks.front!.ipam!.config[0]!.subnet));
  assert.ok(ipaddr.parse(address).match(network));
  const members = Object.entries(services).filter(([, { networks: own = [] }]) =>
    JSON.stringify(own).includes("front"),
  );
  assert.deepEqual(
    members.map(([name]) => name),
    ["proxy", "ingress"],
  );
});

test("mounted files exist, and the image contains what the roles need", () => {
  for (const { volumes = [] } of Object.values(services))
    for (const volume of volumes) {
      const [, file] = (typeof volume === "string" && /^\.\/([^:]+):/.exec(volume)) || [];
      assert.ok(file === undefined || existsSync(`${root}${file}`), file);
    }
  const dockerfile = textOf("infra/Dockerfile");
  for (const [, files] of dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm))
    for (const file of files!.split(" ")) assert.ok(existsSync(`${root}${file}`), file);
  assert.match(dockerfile, /^USER node$/m);
  const context = textOf(".dockerignore");
  for (const name of ["package.json", "package-lock.json", ".npmrc", "catalogue.yaml", "apps", "libs"])
    assert.ok(context.includes(`!${name}\n`), name);
});

test("every container has no root, no capabilities, a read-only file system, a memory limit, and bounded logs", () => {
  for (const [name, service] of Object.entries(services)) {
    assert.equal(service.read_only, true, name);
    assert.deepEqual(
      [service.tmpfs, service.cap_drop, service.security_opt],
      [["/tmp"], ["ALL"], ["no-new-privileges:true"]],
      name,
    );
    assert.match(service.mem_limit ?? "", /^\d+[mg]$/, name);
    assert.deepEqual(Object.keys(service.logging?.options ?? {}), ["max-size", "max-file"], name);
    assert.ok((service.ulimits?.nofile ?? 0) >= 65_536, name);
    if (!service.image.startsWith("sluice:")) assert.match(service.user ?? "", /^[1-9]\d*:[1-9]\d*$/, name);
  }
});

test("third-party images are pinned by digest and version", () => {
  const images = Object.values(services).flatMap(({ image }) => (image.startsWith("sluice:") ? [] : [image]));
  const dockerfile = textOf("infra/Dockerfile");
  const stages = [...dockerfile.matchAll(/^FROM \S+ AS (\S+)$/gm)].map(([, stage]) => stage);
  const bases = [...dockerfile.matchAll(/^FROM (\S+)/gm)].flatMap(([, image = ""]) =>
    stages.includes(image) ? [] : [image],
  );
  for (const image of [...images, ...bases]) assert.match(image, /^[a-z/]+:v?\d+\.\d+[a-z\d.-]*@sha256:[0-9a-f]{64}$/);
  assert.ok(images.length >= 3 && bases.length === 1);
});

test("no secret is in a command line", () => {
  for (const [name, { command = [], entrypoint = [], healthcheck }] of Object.entries(services))
    for (const argument of [...command, ...entrypoint, ...(healthcheck?.test ?? [])])
      assert.doesNotMatch(argument.replaceAll("$$", ""), /\$\{?\w*(?:PASSWORD|KEY|SECRET|TOKEN|AUTH)/, name);
});

test("the proxy limits each caller to what the agents of an office need, and less than an ingress has", () => {
  const text = textOf("infra/nginx/nginx.conf");
  const numberOf = (pattern: RegExp) => Number(pattern.exec(text)?.[1]);
  // GENERATIONS_MAX of an ingress is larger.
  assert.ok(numberOf(/limit_conn connections (\d+);/) >= 500 && numberOf(/limit_conn connections (\d+);/) <= 5_000);
  assert.ok(numberOf(/rate=(\d+)r\/s/) >= 100);
  assert.ok(numberOf(/limit_req zone=requests burst=(\d+) nodelay;/) >= 500);
});

test("the catalogue is mounted with its directory, so that a replaced file is seen", () => {
  for (const [name, { volumes = [], environment }] of roles) {
    if (name === "simulator") continue;
    const mount = volumes.find((volume) => typeof volume === "object");
    assert.equal(environment.SLUICE_CATALOGUE, `${mount?.target}/catalogue.yaml`, name);
  }
});

test("set-up makes what is missing, and changes nothing that is there", () => {
  const directory = mkdtempSync(join(tmpdir(), "set-up-"));
  try {
    for (const file of ["infra/set-up.sh", "package.json", "catalogue.yaml"])
      cpSync(`${root}${file}`, join(directory, file));
    const setUp = () => execFileSync("sh", [join(directory, "infra/set-up.sh")], { cwd: tmpdir() });
    const [environment, catalogue] = [".env", "catalogue/catalogue.yaml"].map((file) => join(directory, file));
    const variables = () => readFileSync(environment!, "utf8").matchAll(/^(\w+)=(.*)$/gm);
    setUp();
    assert.equal(statSync(environment!).mode & 0o777, 0o600);
    assert.equal(readFileSync(catalogue!, "utf8"), textOf("catalogue.yaml"));
    const values = new Map([...variables()].map(([, name, value]) => [name!, value!]));
    const { version } = JSON.parse(textOf("package.json")) as { version: string };
    assert.deepEqual([...values.keys()].sort(), [
      ...[
        "AUTH_SECRET",
        "CREDENTIALS_SECRET",
        "INTERNAL_SECRET",
        "OPERATOR_TOKEN",
        "POSTGRES_PASSWORD",
        "REDIS_PASSWORD",
        "SLUICE_VERSION",
      ],
    ]);
    assert.equal(values.get("SLUICE_VERSION"), version);
    for (const name of [
      "AUTH_SECRET",
      "CREDENTIALS_SECRET",
      "INTERNAL_SECRET",
      "OPERATOR_TOKEN",
      "POSTGRES_PASSWORD",
      "REDIS_PASSWORD",
    ])
      assert.match(values.get(name)!, /^[0-9a-f]{48}$/, name);

    // An older deployment, with a line of its own that has no end.
    const own = "SLUICE_VERSION=0.1.9\nPOSTGRES_PASSWORD=a\nREDIS_PASSWORD=b\nOPENAI_API_KEY=c";
    writeFileSync(environment!, own);
    writeFileSync(catalogue!, "mine");
    for (const _ of [1, 2]) setUp();
    const after = readFileSync(environment!, "utf8");
    assert.match(
      after.slice(own.length),
      /^\nOPERATOR_TOKEN=[0-9a-f]{48}\nINTERNAL_SECRET=[0-9a-f]{48}\nCREDENTIALS_SECRET=[0-9a-f]{48}\n$/,
      "no AUTH_SECRET, which would end all sessions",
    );
    assert.equal(after.slice(0, own.length), own);
    assert.equal(readFileSync(catalogue!, "utf8"), "mine");
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test("Redis runs by its container's command: with a password outside its arguments, and its data on disk", async () => {
  const directory = mkdtempSync(join(tmpdir(), "valkey-conf-"));
  const port = await freePort();
  const redisProgram = await findRedisProgram(process.env.PATH ?? "");
  assert.ok(redisProgram.kind === "found");
  const [shell, option, script = ""] = services.valkey?.command ?? [];
  assert.deepEqual([shell, option], ["sh", "-c"]);
  const here = script
    .replaceAll("$$", "$")
    .replaceAll("/tmp/", `${directory}/`)
    .replace(
      "valkey-server /etc/valkey/valkey.conf --dir /data",
      `${redisProgram.program.path} ${root}infra/redis/valkey.conf --dir ${directory} --port ${port} --bind 127.0.0.1`,
    );
  assert.ok(here.includes(redisProgram.program.path));
  const server = spawn("sh", ["-c", here], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { PATH: process.env.PATH, REDISCLI_AUTH: "very-secret" },
  });
  const ended = once(server, "close");
  try {
    let output = "";
    server.stdout.on("data", (chunk) => {
      output += chunk;
    });
    await until("Redis to be ready", () => {
      assert.equal(server.exitCode, null, output);
      return output.includes("Ready to accept connections");
    });
    assert.doesNotMatch(readFileSync(`/proc/${server.pid}/cmdline`, "utf8"), /secret/);
    assert.equal(statSync(join(directory, "password.conf")).mode & 0o777, 0o600);
    const redis = await connectRedis(`redis://default:very-secret@127.0.0.1:${port}`, "request");
    assert.deepEqual(await redis.config("GET", "maxmemory-policy"), ["maxmemory-policy", "noeviction"]);
    assert.match(String(await redis.config("GET", "client-output-buffer-limit")), /pubsub 67108864 33554432 60$/);
    redis.disconnect();
    await assert.rejects(connectRedis(`redis://127.0.0.1:${port}`, "request"), /NOAUTH/);
    assert.ok(existsSync(join(directory, "appendonlydir")));
  } finally {
    server.kill("SIGTERM");
    await ended;
    rmSync(directory, { recursive: true, force: true });
  }
});
