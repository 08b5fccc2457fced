/**
 * Renders the Helm chart with every combination of its switches and checks the objects against the
 * schemas of Kubernetes, KEDA, the Prometheus Operator and the Gateway API, and against the
 * processes' own readers of settings. Needs Helm, Go (for the schemas of the last three), Python's
 * kubernetes-validate, and promtool.
 */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, globSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import Schema from "typebox/schema";
import { parseAllDocuments, parseDocument } from "yaml";
import { readSettings, type Setting, serviceConfigOf, serviceSettings } from "#service/config.ts";
import { exporterSecrets, tracingSettings } from "#tracing/config.ts";
import { controlConfigOf, controlSettings } from "../../apps/control/config.ts";
import { ingressConfigOf, ingressSettings } from "../../apps/ingress/common/config.ts";
import { simulatorSettings } from "../../apps/simulator/config.ts";
import { loadWorkerConfig, workerSettings } from "../../apps/worker/config.ts";
import { secretsText } from "../../infra/kubernetes/secrets.ts";
import { chart, documentedVariables, type Json, type Manifest } from "./chart.ts";
import { root } from "./compose.ts";
import { type Alert, alerts } from "./promql.ts";

/** The oldest and the newest version of Kubernetes that the chart is checked for. */
const kubernetesVersions = ["1.29.0", "1.37.0"];
const modules = {
  "github.com/kedacore/keda/v2@v2.21.0": "config/crd/bases/*.yaml",
  "github.com/prometheus-operator/prometheus-operator@v0.85.0": "example/prometheus-operator-crd/*.yaml",
  "sigs.k8s.io/gateway-api@v1.4.0": "config/crd/standard/*.yaml",
  "github.com/envoyproxy/gateway@v1.9.1": "charts/gateway-helm/charts/crds/crds/generated/*.yaml",
  "github.com/traefik/traefik/v3@v3.7.13":
    "docs/content/reference/dynamic-configuration/kubernetes-crd-definition-v1.yml",
};

/** The output of a program, or an error that says how to get it. */
function outputOf(program: string, args: readonly string[], howToGet: string): string {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${program} ${args[0]} failed. ${howToGet}\n${stderr ?? ""}${stdout ?? ""}`);
  return stdout.trim();
}

const howToGetGo = "Install Go 1.26 or newer (https://go.dev/dl).";
const goPath = outputOf("go", ["env", "GOPATH"], howToGetGo);
const helmProgram = [join(goPath, "bin/helm"), "helm"].find((file) => spawnSync(file, ["version"]).status === 0);
const helm = helmProgram ?? assert.fail("helm is missing: go install helm.sh/helm/v3/cmd/helm@v3.22.0");
const kubernetesSchemas = outputOf(
  process.env.PYTHON ?? "python3",
  ["-c", "import kubernetes_validate, os; print(os.path.dirname(kubernetes_validate.__file__))"],
  "Install kubernetes-validate 1.37 or newer: pip install kubernetes-validate. PYTHON names another interpreter, such as that of a virtual environment.",
);

interface Definition {
  properties?: Record<string, Definition>;
  additionalProperties?: Definition | boolean;
  items?: Definition;
  pattern?: string;
  "x-kubernetes-preserve-unknown-fields"?: boolean;
  "x-kubernetes-group-version-kind"?: { group: string; version: string; kind: string }[];
}

const keyOf = (apiVersion: string, kind: string) => `${apiVersion}/${kind}`;

function schemasOfKubernetes(version: string): Map<string, object> {
  const file = join(kubernetesSchemas, `kubernetes-json-schema/v${version}-local-strict/_definitions.json`);
  const { $defs } = JSON.parse(readFileSync(file, "utf8")) as { $defs: Record<string, Definition> };
  return new Map(
    Object.entries($defs).flatMap(([name, definition]) =>
      (definition["x-kubernetes-group-version-kind"] ?? []).map((kind): [string, object] => [
        keyOf(kind.group === "" ? kind.version : `${kind.group}/${kind.version}`, kind.kind),
        { $defs, $ref: `#/$defs/${name}` },
      ]),
    ),
  );
}

function schemasOfModules(): Map<string, object> {
  const schemas = new Map<string, object>();
  for (const [module, files] of Object.entries(modules)) {
    const problems = outputOf(
      "go",
      ["mod", "download", "-json", module],
      `${howToGetGo} The Go module proxy has ${module}.`,
    );
    const { Dir } = JSON.parse(problems) as { Dir: string };
    for (const file of globSync(files, { cwd: Dir })) {
      for (const document of parseAllDocuments(readFileSync(join(Dir, file), "utf8"))) {
        const definition = document.toJS() as Manifest | null;
        if (definition?.kind !== "CustomResourceDefinition") continue;
        const { group, names, versions } = definition.spec as {
          group: string;
          names: { kind: string };
          versions: { name: string; schema: { openAPIV3Schema: Definition } }[];
        };
        for (const { name, schema } of versions)
          schemas.set(keyOf(`${group}/${name}`, names.kind), strict(schema.openAPIV3Schema, true));
      }
    }
  }
  return schemas;
}

/** The same, but an unknown field is an error, where the API server would drop it. */
function strict(definition: Definition, isRoot = false): object {
  const { properties, items, additionalProperties, pattern, ...rest } = definition;
  const own = isRoot ? { ...properties, metadata: {} } : properties;
  return {
    ...rest,
    // Go's flags of a pattern are no JavaScript.
    ...(pattern !== undefined && !pattern.includes("(?") && { pattern }),
    ...(own && {
      properties: Object.fromEntries(Object.entries(own).map(([name, member]) => [name, strict(member)])),
      ...(definition["x-kubernetes-preserve-unknown-fields"] !== true && { additionalProperties: false }),
    }),
    ...(items && { items: strict(items) }),
    ...(typeof additionalProperties === "object" && { additionalProperties: strict(additionalProperties) }),
  };
}

const custom = schemasOfModules();
const validators = new Map<string, { Errors(value: unknown): [boolean, unknown[]] }>();
function errorsOf(manifest: Manifest, schemas: Map<string, object>, version: string): unknown[] {
  const key = keyOf(manifest.apiVersion, manifest.kind);
  const schema = custom.get(key) ?? schemas.get(key) ?? assert.fail(`no schema of ${key}`);
  const name = `${version} ${key}`;
  const validator =
    validators.get(name) ?? (Schema.Compile(schema) as { Errors(value: unknown): [boolean, unknown[]] });
  validators.set(name, validator);
  return validator.Errors(manifest)[1];
}

/** Most objects are the same in many combinations of switches, and the same object here. */
const parsed = new Map<string, Manifest | null>();

/** Renders the chart. Throws with Helm's message if it refuses the values. */
function render(values: Json, kubernetesVersion = kubernetesVersions.at(-1)!): Manifest[] {
  const args = ["template", "sluice", chart, "--namespace", "ai", "--kube-version", kubernetesVersion, "--values", "-"];
  const { status, stdout, stderr } = spawnSync(helm, args, {
    encoding: "utf8",
    input: JSON.stringify(values),
    maxBuffer: 1 << 26,
  });
  if (status !== 0) throw new Error(stderr);
  return stdout.split(/^---$/m).flatMap((text) => {
    if (!parsed.has(text)) {
      const document = parseDocument(text);
      assert.deepEqual(document.errors, []);
      parsed.set(text, document.toJS() as Manifest | null);
    }
    return parsed.get(text) ?? [];
  });
}

/** Values at a path of names with dots between. */
const nested = (path: string, values: Json): Json =>
  path.split(".").reduceRight<Json>((inner, name) => ({ [name]: inner }), values);

const catalogue = { content: readFileSync(join(root, "catalogue.yaml"), "utf8") };
const gateways = [{ name: "public", namespace: "gateways" }];
const hosts = { apiHost: "api.example.com", consoleHost: "console.example.com" };

/** The values of each switch: every combination is rendered. */
const switches: Json[][] = [
  [{}, { workerAutoscaling: { enabled: true } }],
  [{}, { control: { enabled: false } }],
  [{}, { simulator: { enabled: true } }],
  [{}, { networkPolicy: { enabled: false } }],
  [
    {},
    { exposure: { kind: "Ingress", ...hosts, className: "nginx", tlsSecret: "tls", annotations: { a: "b" } } },
    { exposure: { kind: "HTTPRoute", ...hosts, gateways } },
  ],
  [{ catalogue }, { catalogue: { configMap: "my-catalogue" } }],
  [{}, { ingress: { autoscaling: { enabled: true } } }],
  [{}, { podDisruptionBudget: { enabled: false } }],
  [{}, { monitoring: { podMonitor: true, prometheusRule: true, labels: { release: "prometheus" } } }],
  [
    {},
    {
      usage: { claim: "usage" },
      files: { claim: "files" },
      secrets: { ingress: "sluice-ingress" },
      credentials: ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"],
      credentialFiles: ["GEMINI_API_KEY"],
      pod: { volumes: [{ name: "keys", secret: { secretName: "keys" } }] },
      certificateAuthorities: [{ configMap: "company" }, { secret: "database", key: "root.crt" }],
    },
  ],
];

const combinations = switches.reduce<Record<string, Json>[]>(
  (product, choices) => product.flatMap((values) => choices.map((choice) => Object.assign({}, values, choice))),
  [{}],
);
const rendered = combinations.map((values) => ({ values, manifests: render(values) }));

interface Environment {
  name: string;
  value?: string;
  valueFrom?: { secretKeyRef: { name: string; key: string; optional?: boolean } };
}
const deployments = [
  ...new Set(rendered.flatMap(({ manifests }) => manifests.filter(({ kind }) => kind === "Deployment"))),
];
const componentOf = ({ spec }: Manifest): string => spec.template.metadata.labels["app.kubernetes.io/component"];
const environmentOf = ({ spec }: Manifest): Environment[] => spec.template.spec.containers[0].env;

test("helm lint finds no fault", () => {
  const { status, stdout } = spawnSync(helm, ["lint", chart, "--strict", "--values", "-"], {
    encoding: "utf8",
    input: JSON.stringify({ catalogue }),
  });
  assert.equal(status, 0, stdout);
});

for (const version of kubernetesVersions)
  test(`every object of ${combinations.length} combinations of switches is valid in Kubernetes ${version}`, () => {
    const schemas = schemasOfKubernetes(version);
    const kinds = new Set<string>();
    const checked = new Set<Manifest>();
    for (const { values, manifests } of rendered)
      for (const manifest of manifests) {
        if (checked.has(manifest)) continue;
        checked.add(manifest);
        kinds.add(manifest.kind);
        const where = () => `${manifest.kind} ${manifest.metadata.name} with ${JSON.stringify(values).slice(0, 300)}`;
        const errors = errorsOf(manifest, schemas, version);
        if (errors.length > 0) assert.deepEqual(errors, [], where());
      }
    assert.deepEqual([...kinds].sort(), [
      ...["ConfigMap", "Deployment", "HTTPRoute", "HorizontalPodAutoscaler", "Ingress", "NetworkPolicy"],
      ...["PodDisruptionBudget", "PodMonitor", "PrometheusRule", "ScaledObject", "Service", "ServiceAccount"],
    ]);
  });

test("the schemas find faults: an unknown field, a wrong type", () => {
  const schemas = schemasOfKubernetes(kubernetesVersions[0]!);
  for (const deployment of deployments.slice(0, 1)) {
    const faulty = structuredClone(deployment);
    faulty.spec.template.spec.containers[0].imagePullPolice = "Always";
    assert.notDeepEqual(errorsOf(faulty, schemas, kubernetesVersions[0]!), []);
  }
  const scaled = rendered.flatMap(({ manifests }) => manifests.filter(({ kind }) => kind === "ScaledObject"))[0]!;
  for (const change of [{ maxReplicas: 3 }, { maxReplicaCount: "3" }])
    assert.notDeepEqual(
      errorsOf({ ...scaled, spec: { ...scaled.spec, ...change } }, schemas, kubernetesVersions[0]!),
      [],
    );
});

test("every pod meets the restricted Pod Security Standard", () => {
  for (const { spec } of deployments) {
    const pod = spec.template.spec;
    assert.equal(pod.securityContext.runAsNonRoot, true);
    assert.equal(pod.securityContext.seccompProfile.type, "RuntimeDefault");
    assert.equal(pod.automountServiceAccountToken, false);
    for (const volume of pod.volumes) {
      const [kind] = Object.keys(volume).filter((name) => name !== "name");
      assert.ok(["configMap", "emptyDir", "persistentVolumeClaim", "projected", "secret"].includes(kind!));
    }
    for (const { securityContext, resources } of [...(pod.initContainers ?? []), ...pod.containers]) {
      assert.deepEqual(securityContext, {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
      assert.ok(resources.requests.cpu && resources.requests.memory && resources.limits.memory);
    }
  }
});

test("each process accepts its settings, and has time to drain", () => {
  for (const deployment of deployments) {
    const { env, args, graceSeconds } = {
      env: Object.fromEntries(environmentOf(deployment).map(({ name, value }) => [name, value])),
      args: deployment.spec.template.spec.containers[0].args as string[],
      graceSeconds: deployment.spec.template.spec.terminationGracePeriodSeconds as number,
    };
    const component = componentOf(deployment);
    assert.ok(existsSync(join(root, args[0]!)));
    if (component === "simulator") readSettings(simulatorSettings, env);
    else serviceConfigOf(env);
    if (component === "control") controlConfigOf(env);
    if (component.startsWith("worker-")) loadWorkerConfig(env, args.slice(1));
    if (component === "ingress") ingressConfigOf(env);
    const drainSeconds = (Number(env.DRAIN_MS ?? 0) + Number(env.DRAIN_NOTICE_MS ?? 0)) / 1_000;
    assert.ok(graceSeconds >= drainSeconds + 5, component);
  }
});

test("every setting of every role can be set, a secret one from a Secret only", () => {
  const files = { bucket: "files" };
  const secrets = { ingress: "sluice-ingress" };
  const roles = { ingress: ingressSettings, control: controlSettings, workerDefaults: workerSettings };
  for (const [role, own] of Object.entries(roles)) {
    const settings: Setting<unknown>[] = [serviceSettings, tracingSettings, own].flatMap((table) =>
      Object.values(table),
    );
    const environmentWith = (values: Record<string, Json>) => {
      const manifests = render({ catalogue, files, secrets, [role]: values });
      const isOfRole = (one: Manifest) => componentOf(one).startsWith(role === "workerDefaults" ? "worker-chat" : role);
      const deployment = manifests.find((one) => one.kind === "Deployment" && isOfRole(one));
      return new Map(environmentOf(deployment ?? assert.fail(role)).map((each) => [each.name, each]));
    };
    const present = environmentWith({});
    const names = (isSecret: boolean) =>
      [...settings.filter(({ secret }) => (secret !== undefined) === isSecret).map(({ variable }) => variable)]
        .concat(isSecret ? exporterSecrets : [])
        .filter((name) => !present.has(name));
    const valueFrom = (key: string) => ({ secretKeyRef: { name: "own", key } });
    const changed = environmentWith({
      settings: Object.fromEntries(names(false).map((name) => [name, `a value of ${name}`])),
      pod: { env: names(true).map((name) => ({ name, valueFrom: valueFrom(name) })) },
    });
    for (const name of names(false)) assert.equal(changed.get(name)?.value, `a value of ${name}`, `${role} ${name}`);
    for (const { variable, secret } of settings) {
      const { value, valueFrom: from } = changed.get(variable) ?? assert.fail(`${role} ${variable}`);
      assert.ok(secret === undefined ? value !== undefined : from !== undefined, `${role} ${variable}`);
    }
    for (const name of names(true))
      assert.throws(() => environmentWith({ settings: { [name]: "plain" } }), /secret/i, `${role} ${name}`);
  }
  for (const control of [{ settings: { USAGE_EXPORT: "jsonl" } }, {}])
    assert.throws(
      () =>
        render({ catalogue, control, ...(control.settings === undefined && { settings: { USAGE_EXPORT: "focus" } }) }),
      /USAGE_EXPORT needs files/,
    );
});

test("variables are documented and unique, and a role has no secret but its own", () => {
  const credentials = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"];
  /** Keys of control's Secret that other roles get. */
  const shared: Record<string, RegExp> = { INTERNAL_SECRET: /^ingress$/, CREDENTIALS_SECRET: /^worker-/ };
  for (const deployment of deployments) {
    const component = componentOf(deployment);
    const environment = environmentOf(deployment);
    const names = environment.map(({ name }) => name);
    assert.equal(new Set(names).size, names.length, component);
    for (const { name, value, valueFrom } of environment) {
      if (credentials.includes(name)) {
        assert.equal(valueFrom?.secretKeyRef.name, component.startsWith("worker-") ? "sluice-upstreams" : undefined);
        if (!component.startsWith("worker-")) assert.equal(value, "configured");
        continue;
      }
      if (name.startsWith("GEMINI_API_KEY")) {
        assert.equal(name.endsWith("_FILE"), component.startsWith("worker-"));
        continue;
      }
      assert.ok(
        documentedVariables.has(name) || ["SIMULATOR_URL", "SLUICE_CONTROL_URL", "NODE_EXTRA_CA_CERTS"].includes(name),
        name,
      );
      const secret = valueFrom?.secretKeyRef.name;
      if (secret === "sluice-control") assert.ok(component === "control" || shared[name]?.test(component), name);
      else if (secret === "sluice-ingress") assert.equal(component, "ingress");
      else if (secret !== undefined) assert.deepEqual([secret, name], ["sluice-redis", "REDIS_URL"]);
    }
  }
});

test("what selects pods finds some, and what refers to an object finds it", () => {
  for (const { manifests } of rendered) {
    const labels = manifests
      .filter(({ kind }) => kind === "Deployment")
      .map(({ spec }) => spec.template.metadata.labels);
    const exists = (kind: string, name: string) =>
      manifests.some((manifest) => manifest.kind === kind && manifest.metadata.name === name);
    const names = manifests.map(({ kind, metadata }) => `${kind}/${metadata.name}`);
    assert.equal(new Set(names).size, names.length);
    for (const { kind, metadata, spec } of manifests) {
      const selector: Record<string, string> | undefined =
        kind === "Service" ? spec.selector : (spec?.podSelector ?? spec?.selector)?.matchLabels;
      if (selector !== undefined)
        assert.ok(
          labels.some((one) => Object.entries(selector).every(([name, value]) => one[name] === value)),
          `${kind} ${metadata.name}`,
        );
      if (kind === "ScaledObject" || kind === "HorizontalPodAutoscaler") {
        const target = manifests.find(
          (one) => one.kind === "Deployment" && one.metadata.name === spec.scaleTargetRef.name,
        );
        assert.ok(target !== undefined && target.spec.replicas === undefined, metadata.name);
      }
      if (kind === "HTTPRoute") assert.ok(exists("Service", spec.rules[0].backendRefs[0].name));
      if (kind === "Ingress") assert.ok(exists("Service", spec.rules[0].http.paths[0].backend.service.name));
    }
  }
});

test("only workers and control reach public addresses; clients reach ingresses and control only", () => {
  for (const { manifests } of rendered) {
    const policies = manifests.filter(({ kind }) => kind === "NetworkPolicy");
    const reach = (key: "egress" | "ingress", test: (rule: Record<string, Json>) => boolean) =>
      policies
        .filter(({ spec }) => (spec[key] ?? []).some(test))
        .map(({ metadata }) => metadata.name)
        .sort();
    if (policies.length === 0) continue;
    const hasControl = manifests.some(({ metadata }) => metadata.name === "sluice-control");
    const isPublic = (rule: Record<string, Json>) => JSON.stringify(rule).includes("0.0.0.0/0");
    assert.deepEqual(reach("egress", isPublic), [...(hasControl ? ["sluice-control"] : []), "sluice-worker"]);
    const isOpen = (rule: Record<string, Json>) => rule.from === undefined && JSON.stringify(rule).includes("http");
    assert.deepEqual(reach("ingress", isOpen), [...(hasControl ? ["sluice-control"] : []), "sluice-ingress"]);
    assert.deepEqual(policies.find(({ metadata }) => metadata.name === "sluice")!.spec.policyTypes, [
      "Ingress",
      "Egress",
    ]);
  }
});

const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };

test("a pool can be removed and added, settings reach their role, and an image tag can differ by role", () => {
  const manifests = render({
    catalogue,
    workers: {
      image: null,
      realtime: null,
      gpu: { queues: { "own.queue": 3 }, settings: { LOG_LEVEL: "debug" }, imageTag: "new" },
    },
    settings: { LOG_LEVEL: "warn" },
    image: { repository: "registry.example.com/sluice", digest: `sha256:${"a".repeat(64)}` },
    workerAutoscaling: { enabled: true },
  });
  const deployments = manifests.filter(({ kind }) => kind === "Deployment");
  assert.deepEqual(deployments.map(componentOf).sort(), [
    "control",
    "ingress",
    "worker-chat",
    "worker-gpu",
    "worker-other",
  ]);
  const imageAndLevel = (component: string) => {
    const deployment = deployments.find((one) => componentOf(one) === component)!;
    const level = environmentOf(deployment).find(({ name }) => name === "LOG_LEVEL")?.value;
    return [deployment.spec.template.spec.containers[0].image, level];
  };
  assert.deepEqual(imageAndLevel("ingress"), [`registry.example.com/sluice@sha256:${"a".repeat(64)}`, "warn"]);
  assert.deepEqual(imageAndLevel("worker-gpu"), ["registry.example.com/sluice:new", "debug"]);
  const versionOf = (component: string) =>
    deployments.find((one) => componentOf(one) === component)!.spec.template.metadata.labels[
      "app.kubernetes.io/version"
    ];
  assert.deepEqual([versionOf("worker-gpu"), versionOf("ingress")], ["new", version]);
  const scaled = manifests.find(
    ({ kind, metadata }) => kind === "ScaledObject" && metadata.name === "sluice-worker-other",
  )!;
  const queries = scaled.spec.triggers
    .map(({ metadata }: { metadata: { query: string } }) => metadata.query)
    .join("\n");
  assert.match(queries, /queue!~"audio\|background\|chat\|own.queue"/);
});

test("Prometheus answers the triggers' queries: workers for the load, zero for no queue, nothing without ingresses", () => {
  const manifests = render({
    catalogue,
    workerAutoscaling: { enabled: true },
    ingress: { autoscaling: { enabled: true } },
  });
  const queryOf = (component: string, trigger: string): string => {
    const scaled = manifests.find(
      ({ kind, metadata }) => kind === "ScaledObject" && metadata.name === `sluice-${component}`,
    )!;
    return scaled.spec.triggers.find(({ name }: { name: string }) => name === trigger).metadata.query;
  };
  const queries = {
    chat: queryOf("worker-chat", "load-chat"),
    wait: queryOf("worker-chat", "oldest-wait"),
    others: queryOf("worker-other", "load-others"),
    othersWait: queryOf("worker-other", "oldest-wait-others"),
    ingress: queryOf("ingress", "capacity"),
  };
  const series = (metric: string, labels: string, values: string) => ({ series: `${metric}{${labels}}`, values });
  const job = 'job="ai/sluice"';
  const worldOf = (input_series: object[], expected: Partial<Record<keyof typeof queries, number>>) => ({
    interval: "5s",
    input_series,
    promql_expr_test: Object.entries(queries).map(([name, expr]) => {
      const value = expected[name as keyof typeof queries];
      return { expr, eval_time: "30s", exp_samples: value === undefined ? [] : [{ labels: "{}", value }] };
    }),
  });
  const load = [
    series("sluice_generations", `${job},instance="a",queue="chat",state="waiting"`, "100x10"),
    series("sluice_generations", `${job},instance="a",queue="chat",state="running"`, "200x10"),
    series("sluice_generations", `${job},instance="b",queue="chat",state="running"`, "400x10"),
    series("sluice_generations", 'job="another/sluice",instance="a",queue="chat",state="running"', "1000x10"),
    series("sluice_oldest_wait_seconds", `${job},instance="a",queue="chat"`, "1x10"),
    series("sluice_oldest_wait_seconds", `${job},instance="b",queue="chat"`, "0 0 5 10 15 20 25x4"),
  ];
  const workers = [
    series("sluice_worker_capacity", `${job},instance="w",queue="chat"`, "300x10"),
    series("sluice_worker_capacity", `${job},instance="v",queue="chat"`, "500x10"),
    series("sluice_worker_capacity", `${job},instance="old",queue="chat"`, "2048x10"),
    series("sluice_draining", `${job},instance="old"`, "1x10"),
    series("sluice_draining", `${job},instance="w"`, "0x10"),
  ];
  const ownQueues = [
    series("sluice_generations", `${job},instance="a",queue="own.a",state="running"`, "30x5 40x5"),
    series("sluice_generations", `${job},instance="b",queue="own.a",state="waiting"`, "30x5 40x5"),
    series("sluice_generations", `${job},instance="b",queue="own.b",state="running"`, "60x10"),
    series("sluice_worker_capacity", `${job},instance="w",queue="own.a"`, "4x10"),
    series("sluice_oldest_wait_seconds", `${job},instance="b",queue="own.a"`, "2x10"),
  ];
  const growing = [
    series("sluice_generations", `${job},instance="a",queue="chat",state="waiting"`, "0 0 0 0 0 100 1000"),
  ];
  const capacities = [
    series("sluice_capacity_used", `${job},instance="a",limit="generations",queue=""`, "350x10"),
    series("sluice_capacity_max", `${job},instance="a",limit="generations",queue=""`, "1000x10"),
    series("sluice_capacity_used", `${job},instance="a",limit="bodies",queue=""`, "90x10"),
    series("sluice_capacity_max", `${job},instance="a",limit="bodies",queue=""`, "100x10"),
    series("sluice_capacity_used", `${job},instance="a",limit="waiting",queue="chat"`, "100x10"),
    series("sluice_capacity_max", `${job},instance="a",limit="waiting",queue="chat"`, "100x10"),
    series("sluice_capacity_used", `${job},instance="b",limit="generations",queue=""`, "500x10"),
    series("sluice_capacity_max", `${job},instance="b",limit="generations",queue=""`, "1000x10"),
  ];
  const none = { others: 0, othersWait: 0 };
  const tests = [
    worldOf([...load, ...workers, ...ownQueues, ...capacities], {
      // 700 generations at 400 each, and one spare worker.
      chat: 700 / 400 / 0.7 + 1,
      // Two workers have been there for 20 seconds, and a request has waited for 5 at least.
      wait: 2 * 0.5,
      // 80 of own.a, which were 60, at four each; 60 of own.b at the setting, eight.
      others: (80 * 1.25) / 4 / 0.7,
      othersWait: 1 * 0.2,
      ingress: 1.4,
    }),
    worldOf(load, { chat: 700 / 2_048 / 0.7 + 1, wait: 0, ...none }),
    worldOf(growing, { chat: 1_250 / 2_048 / 0.7 + 1, wait: 0, ...none }),
    worldOf(load.slice(3, 4), {}),
  ];
  const directory = mkdtempSync(join(tmpdir(), "queries-"));
  try {
    const file = join(directory, "queries.yml");
    writeFileSync(file, JSON.stringify({ rule_files: [], evaluation_interval: "5s", tests }));
    outputOf("promtool", ["test", "rules", file], "promtool comes with Prometheus: apt-get install prometheus.");
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test("values that cannot work are refused with a reason", () => {
  const refused: [Json, RegExp][] = [
    [{}, /catalogue\.content is empty/],
    [{ catalogue: { content: "a", configMap: "b" } }, /not both/],
    [{ catalogue, exposure: { kind: "Ingress" } }, /apiHost or exposure\.consoleHost/],
    [{ catalogue, exposure: { kind: "HTTPRoute", apiHost: "a.example" } }, /exposure\.gateways/],
    [{ catalogue, settings: { HOST: "::" } }, /settings of ingress: the chart itself sets HOST/],
    [{ catalogue, settings: { DRAIN_MS: "1" } }, /the chart itself sets DRAIN_MS/],
    [{ catalogue, credentials: ["MY_UPSTREAM"], settings: { MY_UPSTREAM: "a" } }, /the chart itself sets MY_UPSTREAM/],
    [
      {
        catalogue,
        control: { pod: { env: [{ name: "SMTP_URL", valueFrom: { secretKeyRef: { name: "a", key: "b" } } }] } },
      },
      /pod\.env of control: SMTP_URL is set already/,
    ],
    [
      {
        catalogue,
        pod: {
          env: [
            { name: "A", value: "1" },
            { name: "A", value: "2" },
          ],
        },
      },
      /A is set already/,
    ],
    [{ catalogue, unknown: 1 }, /unknown/],
    [{ catalogue, backup: { enabled: true } }, /backup\.claim is empty/],
    [{ catalogue, backup: { enabled: true, claim: "a" }, control: { enabled: false } }, /no database without control/],
    [{ catalogue, workers: { chat: { maxReplicas: 1 } } }, /workers\.chat: minReplicas is above maxReplicas/],
    [{ catalogue, workers: { image: { spareReplicas: 1 } } }, /workers\.image: spareReplicas never end/],
  ];
  for (const [values, reason] of refused) assert.throws(() => render(values), reason);
});

test("no value of a setting or a variable may be a secret, in no place; a reference to one may be", () => {
  const role = { ingress: {}, control: {}, workerDefaults: {}, "workers.chat": { queues: { chat: 1 } } };
  const settingPlaces = (setting: Json): Json[] => [
    { settings: setting },
    ...Object.entries(role).map(([name, own]) => nested(name, { ...own, settings: setting })),
  ];
  const variablePlaces = (variable: Json): Json[] => [
    { pod: { env: [variable] } },
    ...Object.entries(role).map(([name, own]) => nested(name, { ...own, pod: { env: [variable] } })),
    { simulator: { enabled: true, pod: { env: [variable] } } },
  ];
  const own = {
    content: `upstreams: { own: { dialect: openai-chat, credentials: [OWN_UPSTREAM], credential: OTHER } }`,
  };
  const refused = (values: Json, name: string) =>
    assert.throws(
      () => render({ catalogue: own, ...(values as object) }),
      new RegExp(`of ${name} would show a secret|the chart itself sets ${name}|${name} is set already`),
      JSON.stringify(values),
    );
  const places = [...settingPlaces({ SMTP_URL: "smtp://mail" }), ...variablePlaces({ name: "SMTP_URL", value: "a" })];
  for (const values of places) refused(values, "SMTP_URL");
  const names = [...secretsText().trim().split("\n"), "REDIS_URL", "OWN_UPSTREAM", "OTHER"];
  for (const name of [...names, "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY_2"])
    refused({ settings: { [name]: "a" } }, name);
  for (const url of ["http://user:password@proxy.example.com", "https://token@example.com/path"])
    refused({ settings: { HTTPS_PROXY: url } }, "HTTPS_PROXY");
  const reference = { name: "OTEL_EXPORTER_OTLP_HEADERS", valueFrom: { secretKeyRef: { name: "traces", key: "a" } } };
  for (const values of variablePlaces(reference)) assert.ok(render({ catalogue: own, ...(values as object) }));
  const plain = {
    AWS_ACCESS_KEY_ID: "a",
    GOOGLE_APPLICATION_CREDENTIALS: "/keys/google.json",
    GATEWAY_URL: "https://a.example/@b",
  };
  assert.ok(render({ catalogue: own, settings: plain }));
});

test("the pods of every role have what the values add, and its own role's too", () => {
  const additionOf = (name: string) => ({
    annotations: { [`${name}.example.com/annotation`]: "a", "example.com/of": name },
    labels: { [`${name}.example.com/label`]: "a" },
    env: [{ name: `OF_${name.toUpperCase().replace("-", "_")}`, value: "1" }],
    envFrom: [{ configMapRef: { name } }],
    volumes: [{ name, emptyDir: {} }],
    volumeMounts: [{ name, mountPath: `/${name}` }],
  });
  const manifests = render({
    catalogue,
    pod: additionOf("all"),
    ingress: { pod: additionOf("ingress") },
    control: { pod: additionOf("control") },
    simulator: { enabled: true, pod: additionOf("simulator") },
    workerDefaults: { pod: additionOf("worker") },
    workers: { chat: { queues: { chat: 1 }, pod: additionOf("worker-chat") } },
  });
  const deployments = manifests.filter(({ kind }) => kind === "Deployment");
  assert.equal(deployments.length, 7);
  const schemas = schemasOfKubernetes(kubernetesVersions[0]!);
  for (const deployment of deployments) {
    assert.deepEqual(errorsOf(deployment, schemas, kubernetesVersions[0]!), []);
    const component = componentOf(deployment);
    const { metadata, spec } = deployment.spec.template;
    const [{ env, envFrom, volumeMounts }] = spec.containers;
    const isPool = component.startsWith("worker-");
    // A list of a pool stands in the place of the defaults' list.
    const own = isPool && component !== "worker-chat" ? "worker" : component;
    for (const name of ["all", own]) {
      const expected = additionOf(name);
      assert.equal(metadata.annotations[`${name}.example.com/annotation`], "a", component);
      assert.equal(metadata.labels[`${name}.example.com/label`], "a", component);
      for (const variable of expected.env)
        assert.deepEqual(
          env.filter((one: Environment) => one.name === variable.name),
          [variable],
        );
      const namesOf = (list: { name: string }[]) => list.map((one) => one.name);
      assert.ok(namesOf(spec.volumes).includes(name) && namesOf(volumeMounts).includes(name), component);
      assert.ok(JSON.stringify(envFrom).includes(`"${name}"`), component);
    }
    assert.equal(metadata.annotations["example.com/of"], own);
    assert.equal(envFrom.length, 2, component);
  }
});

test("a backup exports the database, and keeps so many files", () => {
  const manifests = render({
    catalogue,
    backup: { enabled: true, claim: "backups", keep: 2 },
    certificateAuthorities: [{ configMap: "company" }],
  });
  const [job, policy] = ["CronJob", "NetworkPolicy"].map(
    (kind) => manifests.find((one) => one.kind === kind && one.metadata.name === "sluice-backup")!,
  );
  for (const version of kubernetesVersions)
    for (const manifest of [job!, policy!])
      assert.deepEqual(errorsOf(manifest, schemasOfKubernetes(version), version), []);
  const { metadata, spec } = job!.spec.jobTemplate.spec.template;
  for (const [name, value] of Object.entries(policy!.spec.podSelector.matchLabels))
    assert.equal(metadata.labels[name], value);
  const [{ command, args, env, securityContext }] = spec.containers;
  assert.deepEqual(env, [
    { name: "DATABASE_URL", valueFrom: { secretKeyRef: { name: "sluice-control", key: "DATABASE_URL" } } },
    { name: "NODE_EXTRA_CA_CERTS", value: "/run/certificates/ca.crt" },
  ]);
  assert.equal(securityContext.readOnlyRootFilesystem, true);

  const directory = mkdtempSync(join(tmpdir(), "backup-"));
  try {
    const script = args[0].replaceAll("/backup/", `${directory}/`);
    const environment = { ...process.env, DATABASE_URL: "", DATABASE_DIRECTORY: join(directory, "database") };
    const run = (env: NodeJS.ProcessEnv) => spawnSync(command[0], [...command.slice(1), script], { cwd: root, env });
    const files = () =>
      readdirSync(directory)
        .filter((file) => file.endsWith(".jsonl"))
        .sort();
    for (const day of ["01", "02"]) writeFileSync(join(directory, `sluice-2026-01-${day}T00-00-00Z.jsonl`), "old");
    assert.notEqual(run({ ...environment, DATABASE_URL: "postgres://127.0.0.1:1/none" }).status, 0);
    assert.equal(files().length, 2, "a backup that fails deletes nothing");
    const { status, stderr } = run(environment);
    assert.equal(status, 0, String(stderr));
    const [oldest, newest, ...others] = files();
    assert.deepEqual([oldest, others], ["sluice-2026-01-02T00-00-00Z.jsonl", []]);
    assert.match(readFileSync(join(directory, newest!), "utf8"), /^\{"sluice":"database"/);
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test("workers read the credentials of files where the Secret is mounted; others only know that they exist", () => {
  const deployments = render({ catalogue, credentialFiles: ["OPENAI_API_KEY"] }).filter(
    ({ kind }) => kind === "Deployment",
  );
  for (const deployment of deployments) {
    const isWorker = componentOf(deployment).startsWith("worker-");
    const environment = environmentOf(deployment);
    const valueOfVariable = (name: string) => environment.find((one) => one.name === name)?.value;
    assert.equal(valueOfVariable("OPENAI_API_KEY"), isWorker ? undefined : "configured");
    const file = valueOfVariable("OPENAI_API_KEY_FILE");
    const { volumes, containers } = deployment.spec.template.spec;
    const volume = volumes.find((one: { name: string }) => one.name === "upstreams");
    const mount = containers[0].volumeMounts.find((one: { name: string }) => one.name === "upstreams");
    if (!isWorker) {
      assert.deepEqual([file, volume, mount], [undefined, undefined, undefined]);
      continue;
    }
    const [{ key, path }] = volume.secret.items;
    assert.deepEqual([volume.secret.secretName, key], ["sluice-upstreams", "OPENAI_API_KEY"]);
    assert.equal(file, `${mount.mountPath}/${path}`);
  }
  const twice = { credentials: ["A"], credentialFiles: ["A"] };
  assert.throws(() => render({ catalogue, ...twice }), /A is in credentials and in credentialFiles/);
});

test("ingresses, workers and control reach what their egress values name", () => {
  const ruleOf = (port: number) => ({ ports: [{ port, protocol: "TCP" }], to: [{ ipBlock: { cidr: "10.1.0.0/16" } }] });
  const manifests = render({
    catalogue,
    networkPolicy: { ingressEgress: [ruleOf(4318)], workerEgress: [ruleOf(4319)], controlEgress: [ruleOf(25)] },
  });
  const schemas = schemasOfKubernetes(kubernetesVersions[0]!);
  for (const [name, port] of [
    ["ingress", 4318],
    ["worker", 4319],
    ["control", 25],
  ] as const) {
    const policy = manifests.find(
      ({ kind, metadata }) => kind === "NetworkPolicy" && metadata.name === `sluice-${name}`,
    )!;
    assert.deepEqual(errorsOf(policy, schemas, kubernetesVersions[0]!), []);
    assert.ok(policy.spec.policyTypes.includes("Egress"));
    assert.deepEqual(policy.spec.egress.at(-1), ruleOf(port));
  }
});

test("the examples of proxies are valid", () => {
  const schemas = schemasOfKubernetes(kubernetesVersions.at(-1)!);
  const directory = join(root, "infra/kubernetes/examples");
  const files = readdirSync(directory);
  assert.deepEqual(files.sort(), ["envoy-gateway.yaml", "nginx.yaml", "traefik.yaml"]);
  for (const file of files)
    for (const document of parseAllDocuments(readFileSync(join(directory, file), "utf8"))) {
      const content = document.toJS() as Manifest | Record<string, Json>;
      if ("kind" in content && "apiVersion" in content)
        assert.deepEqual(errorsOf(content as Manifest, schemas, "examples"), [], file);
      else render({ catalogue, ...(content as Record<string, Json>) });
    }
});

test("the values in docs/kubernetes.md can be rendered", () => {
  const page = readFileSync(join(root, "docs/kubernetes.md"), "utf8");
  const examples = [...page.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map(([, text]) => parseDocument(text!).toJS());
  assert.ok(examples.length >= 3);
  for (const example of examples) assert.ok(render({ catalogue, ...example }).length > 0);
});

test("the packaged chart has the alerts", () => {
  const directory = mkdtempSync(join(tmpdir(), "chart-"));
  try {
    execFileSync(helm, ["package", chart, "--destination", directory], { stdio: "pipe" });
    const [archive] = readdirSync(directory);
    const alerts = execFileSync("tar", ["-xzOf", join(directory, archive!), "sluice/files/alerts.yml"], {
      encoding: "utf8",
    });
    assert.equal(alerts, readFileSync(join(root, "infra/prometheus/alerts.yml"), "utf8"));
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test("a release's alerts read its own series, and name the runbooks' address", () => {
  const specOf = (monitoring: Record<string, Json>) => {
    const manifests = render({ catalogue, monitoring: { prometheusRule: true, ...monitoring } });
    return manifests.find(({ kind }) => kind === "PrometheusRule")!.spec as { groups: { rules: Alert[] }[] };
  };
  for (const [monitoring, selector, page] of [
    [{}, 'job="ai/sluice"', "docs/operations.md"],
    [
      { metricSelector: 'cluster="eu"', runbooks: "https://docs.example.com/sluice.html" },
      'cluster="eu"',
      "https://docs.example.com/sluice.html",
    ],
  ] as const) {
    const rules = specOf(monitoring).groups.flatMap((group) => group.rules);
    assert.equal(rules.length, alerts.length);
    for (const [index, { expr, annotations }] of rules.entries()) {
      assert.equal(expr, alerts[index]!.expr.replaceAll('job="sluice"', selector));
      assert.equal(annotations.runbook_url, alerts[index]!.annotations.runbook_url.replace("docs/operations.md", page));
    }
  }
});
