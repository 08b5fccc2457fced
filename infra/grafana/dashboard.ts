/**
 * Generates infra/grafana/sluice.json, a dashboard for Grafana 10 or newer with a Prometheus data
 * source: `node infra/grafana/dashboard.ts`. docs/metrics.md describes the metrics.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";

export const dashboardFile = join(import.meta.dirname, "sluice.json");

interface Query {
  /** PromQL with Grafana's variables. */
  expr: string;
  /** The name of each series; `{{label}}` is a label's value. */
  legend: string;
}

export interface Panel {
  title: string;
  description: string;
  kind: "timeseries" | "stat" | "table";
  /** A unit of Grafana. */
  unit: string;
  queries: Query[];
  /** From this value on the panel is red. */
  alarmFrom?: number;
}

export interface Row {
  title: string;
  panels: Panel[];
}

type Options = Partial<Pick<Panel, "kind" | "alarmFrom" | "description">>;

/** `queries` are pairs of an expression and its legend. */
const panel = (
  title: string,
  unit: string,
  queries: [expr: string, legend: string][],
  options: Options = {},
): Panel => ({
  title,
  description: "",
  kind: "timeseries",
  unit,
  queries: queries.map(([expr, legend]) => ({ expr, legend })),
  ...options,
});

const all = 'namespace=~"$namespace"';
const queue = `${all},queue=~"$queue"`;
const upstream = `${all},upstream=~"$upstream"`;
const rate = (metric: string, selector = all) => `rate(${metric}{${selector}}[$__rate_interval])`;
/** A quantile of a histogram, by one label. */
const quantile = (share: number, metric: string, by: string, selector: string) =>
  `histogram_quantile(${share}, sum by (le, ${by}) (${rate(`${metric}_bucket`, selector)}))`;
const quantiles = (metric: string, by: string, selector: string): [string, string][] => [
  [quantile(0.5, metric, by, selector), `{{${by}}} p50`],
  [quantile(0.95, metric, by, selector), `{{${by}}} p95`],
  [quantile(0.99, metric, by, selector), `{{${by}}} p99`],
];
/** Errors that the gateway or an upstream causes. Refusals of callers are not among them. */
const faults = 'code=~"internal|upstream_failed|upstream_timeout|worker_lost|unavailable|overloaded|stopped"';
const stat = { kind: "stat" } as const;

export const rows: Row[] = [
  {
    title: "Overview",
    panels: [
      panel(
        "Ready processes",
        "short",
        [
          [`sum by (role) (sluice_ready{${all}})`, "{{role}}"],
          [`sum by (role) (sluice_draining{${all}}) > 0`, "{{role}} draining"],
        ],
        stat,
      ),
      panel("Requests", "reqps", [[`sum(${rate("sluice_requests_total")})`, "requests"]], stat),
      panel(
        "Failed requests",
        "percentunit",
        [
          [
            `(sum(${rate("sluice_errors_total", `${all},${faults}`)}) or vector(0)) / sum(${rate("sluice_requests_total")})`,
            "failed",
          ],
        ],
        {
          ...stat,
          alarmFrom: 0.05,
          description: "Errors of the gateway and of upstreams; refusals of callers do not count.",
        },
      ),
      panel("Waiting requests", "short", [[`sum(sluice_generations{${queue},state="waiting"})`, "waiting"]], stat),
      panel("Oldest wait", "s", [[`max(sluice_oldest_wait_seconds{${queue}})`, "oldest"]], { ...stat, alarmFrom: 30 }),
      panel(
        "Time to first content, p95",
        "s",
        [[quantile(0.95, "sluice_first_token_seconds", "namespace", queue), "p95"]],
        stat,
      ),
      panel(
        "Blocked targets",
        "short",
        [[`count(max by (target) (sluice_circuit_breaker_open{${all}})) or vector(0)`, "targets"]],
        {
          ...stat,
          alarmFrom: 1,
        },
      ),
      panel("Ledger lag", "s", [[`min(sluice_ledger_lag_seconds{${all}})`, "lag"]], { ...stat, alarmFrom: 60 }),
    ],
  },
  {
    title: "Queues",
    panels: [
      panel(
        "Queue depth",
        "short",
        [
          [`sum by (queue) (sluice_generations{${queue},state="waiting"})`, "{{queue}} requests"],
          [`max by (queue) (sluice_queue_jobs{${queue},state="waiting"})`, "{{queue}} jobs"],
        ],
        { description: "Requests that wait in ingresses, and jobs on the queue; a job has up to 16 requests." },
      ),
      panel("Oldest wait", "s", [
        [`max by (queue) (sluice_oldest_wait_seconds{${queue}})`, "{{queue}}"],
        [`max by (queue) (sluice_queue_wait_max_seconds{${queue}})`, "{{queue}} at most"],
      ]),
      panel("Wait until a worker took the request", "s", quantiles("sluice_queue_wait_seconds", "queue", queue)),
      panel(
        "Wait for a turn, as a multiple of the expected one",
        "none",
        quantiles("sluice_queue_wait_ratio", "queue", queue),
        { description: "Of requests whose callers were told an expected wait. 1 is exact." },
      ),
      panel("Throughput", "reqps", [
        [`sum by (queue, outcome) (${rate("sluice_worker_generations_total", queue)})`, "{{queue}} {{outcome}}"],
      ]),
      panel(
        "Saturation of workers",
        "percentunit",
        [
          [
            `sum by (queue) (sluice_worker_generations{${queue}}) / sum by (queue) (sluice_worker_capacity{${queue}})`,
            "{{queue}}",
          ],
        ],
        { alarmFrom: 0.9, description: "Slots in use. At 100 % further requests wait: add workers." },
      ),
      panel("Workers", "short", [
        [`count by (queue) (sluice_worker_capacity{${queue}})`, "{{queue}}"],
        [`sum by (queue) (sluice_worker_in_reserve{${queue}})`, "{{queue}} in reserve"],
        [
          `max by (queue) (sluice_queue_protocol_mismatch{${queue}}) > 0`,
          "{{queue}}: 1 while all are of another version",
        ],
      ]),
      panel("Generations that a worker takes at most", "short", [[`sluice_worker_limit{${all}}`, "{{instance}}"]], {
        description: "By what is left of its event loop and its memory.",
      }),
      panel("Workers that take no more", "short", [[`sum by (by) (sluice_worker_saturated{${all}})`, "{{by}}"]], {
        alarmFrom: 1,
        description: "Their event loop or their memory is used up: add workers.",
      }),
    ],
  },
  {
    title: "Latency",
    panels: [
      panel("Time to first content", "s", quantiles("sluice_first_token_seconds", "queue", queue)),
      panel("Gaps between chunks", "s", quantiles("sluice_gap_seconds", "queue", queue)),
      panel("Whole requests", "s", [[quantile(0.95, "sluice_request_seconds", "path", all), "{{path}} p95"]]),
    ],
  },
  {
    title: "Errors",
    panels: [
      panel("Errors by code", "reqps", [[`sum by (code) (${rate("sluice_errors_total")}) > 0`, "{{code}}"]]),
      panel("Responses by status", "reqps", [[`sum by (status) (${rate("sluice_requests_total")})`, "{{status}}"]]),
      panel("Requests over a limit", "reqps", [
        [`sum by (limit, scope) (${rate("sluice_limit_refusals_total")})`, "{{limit}} ({{scope}})"],
      ]),
      panel("Callers who left", "reqps", [
        [`sum by (queue) (${rate("sluice_ended_generations_total", `${queue},outcome="left"`)})`, "{{queue}}"],
      ]),
      panel(
        "Restarted attempts",
        "reqps",
        [[`sum by (queue) (${rate("sluice_restarts_total", queue)})`, "{{queue}}"]],
        {
          description: "A worker or a job was lost; the caller did not notice.",
        },
      ),
    ],
  },
  {
    title: "Upstreams",
    panels: [
      panel("Calls", "reqps", [
        [`sum by (upstream) (${rate("sluice_upstream_calls_total", upstream)})`, "{{upstream}}"],
        [`sum by (upstream) (${rate("sluice_upstream_calls_total", `${upstream},again="yes"`)})`, "{{upstream}} again"],
      ]),
      panel("Failed calls", "percentunit", [
        [
          `sum by (upstream) (${rate("sluice_upstream_errors_total", upstream)}) / sum by (upstream) (${rate("sluice_upstream_calls_total", upstream)})`,
          "{{upstream}}",
        ],
      ]),
      panel("Failures by code and status", "reqps", [
        [
          `sum by (upstream, code, status) (${rate("sluice_upstream_errors_total", upstream)})`,
          "{{upstream}} {{code}} {{status}}",
        ],
      ]),
      panel("Time to first content", "s", quantiles("sluice_upstream_first_token_seconds", "upstream", upstream)),
      panel("Gaps between chunks", "s", quantiles("sluice_upstream_gap_seconds", "upstream", upstream)),
      panel(
        "Slots in use",
        "short",
        [[`sum by (upstream) (sluice_upstream_slots_used{${upstream}})`, "{{upstream}}"]],
        {
          description: "Of upstreams with concurrencyMax.",
        },
      ),
      panel("Circuit breakers", "short", [[`max by (target) (sluice_circuit_breaker_open{${all}})`, "{{target}}"]], {
        alarmFrom: 0.5,
        description: "1 is open, 0.5 half-open. Closed ones are not shown.",
      }),
      panel("Credentials in cooldown", "short", [
        [`max by (credential) (sluice_credentials_cooling{${all}})`, "{{credential}}"],
      ]),
      panel(
        "Vendors' rate limits",
        "percentunit",
        [[`min by (credential) (sluice_vendor_limit_remaining_ratio{${all}})`, "{{credential}}"]],
        { description: "The part that is left of the scarcest limit that a vendor states. Calls wait at 0." },
      ),
      panel("Unreadable events", "reqps", [
        [`sum by (upstream) (${rate("sluice_upstream_malformed_events_total", upstream)})`, "{{upstream}}"],
      ]),
      panel("Large answers at workers", "bytes", [
        [`sum(sluice_worker_answer_bytes{${all}})`, "held"],
        [`sum(sluice_worker_answers_waiting{${all}})`, "wait for memory"],
      ]),
      panel(
        "Requests repeated with a change",
        "reqps",
        [[`sum by (upstream, kind) (${rate("sluice_upstream_repairs_total", upstream)})`, "{{upstream}}: {{kind}}"]],
        {
          description:
            "The upstream refused a field, a signature or the order of the turns; the worker's log names it.",
        },
      ),
      panel(
        "Answers of sessions",
        "reqps",
        [
          [
            `sum by (upstream, affinity) (${rate("sluice_session_answers_total", upstream)})`,
            "{{upstream}}: {{affinity}}",
          ],
        ],
        { description: "Moved: not from the place that has the session's prompt cache." },
      ),
    ],
  },
  {
    title: "Tokens",
    panels: [
      panel("Tokens by kind", "short", [[`sum by (kind) (${rate("sluice_tokens_total")})`, "{{kind}}"]]),
      panel("Output tokens by model", "short", [
        [`sum by (model) (${rate("sluice_tokens_total", `${all},kind="output"`)})`, "{{model}}"],
      ]),
      panel("Messages of sessions", "short", [
        [`sum by (direction, dialect) (${rate("sluice_session_messages_total")})`, "{{dialect}} {{direction}}"],
      ]),
    ],
  },
  {
    title: "Processes",
    panels: [
      panel(
        "Event-loop delay, p99",
        "s",
        [
          [
            `nodejs_eventloop_lag_p99_seconds{${all}} * on (namespace, instance) group_left (role) sluice_process_info`,
            "{{role}} {{instance}}",
          ],
        ],
        {
          alarmFrom: 0.25,
        },
      ),
      panel(
        "CPU",
        "short",
        [
          [
            `${rate("process_cpu_seconds_total")} * on (namespace, instance) group_left (role) sluice_process_info`,
            "{{role}} {{instance}}",
          ],
        ],
        {
          description: "Cores. The JavaScript of a process uses one core at most.",
        },
      ),
      panel("Memory", "bytes", [
        [
          `process_resident_memory_bytes{${all}} * on (namespace, instance) group_left (role) sluice_process_info`,
          "{{role}} {{instance}}",
        ],
      ]),
      panel(
        "Saturation of ingresses",
        "percentunit",
        [
          [
            `max by (limit, queue) (sluice_capacity_used{${all}} / (sluice_capacity_max{${all}} > 0))`,
            "{{limit}} {{queue}}",
          ],
        ],
        { alarmFrom: 0.9, description: "The fullest ingress, for each limit that its keys share." },
      ),
      panel(
        "Open files",
        "percentunit",
        [
          [
            `process_open_fds{${all}} / process_max_fds{${all}} * on (namespace, instance) group_left (role) sluice_process_info`,
            "{{role}} {{instance}}",
          ],
        ],
        { alarmFrom: 0.9 },
      ),
      panel("Bytes in memory", "bytes", [
        [`sum by (instance) (sluice_bodies_bytes{${all}})`, "bodies {{instance}}"],
        [`sum by (instance) (sluice_worker_attachment_bytes{${all}})`, "attachments {{instance}}"],
      ]),
      panel("Background responses and resumable streams", "short", [
        [`sum(sluice_detached_generations{${all}})`, "running"],
      ]),
      panel("Requests that wait for attachments", "short", [
        [`sum(sluice_worker_attachments_waiting{${all}})`, "waiting"],
      ]),
      panel("Versions", "short", [
        [`count by (role, version) (sluice_process_info{${all}})`, "{{role}} {{version}}"],
        [`count by (version) (sluice_catalogue_info{${all}})`, "catalogue {{version}}"],
        [`sum(sluice_catalogue_refused{${all}})`, "processes that refuse the catalogue"],
      ]),
    ],
  },
  {
    title: "Redis and the relay",
    panels: [
      panel("Redis memory", "bytes", [
        [`max(sluice_redis_memory_bytes{${all}})`, "used"],
        [`max(sluice_redis_memory_max_bytes{${all}})`, "maxmemory"],
        [`max(sluice_stored_bytes{${all}})`, "stored for callers"],
      ]),
      panel(
        "Redis round trip",
        "s",
        [
          [`max(sluice_redis_round_trip_seconds{${all}})`, "slowest process"],
          [`avg(sluice_redis_round_trip_seconds{${all}})`, "mean"],
        ],
        { alarmFrom: 0.1 },
      ),
      panel("Redis commands per second", "short", [[`max(sluice_redis_commands_per_second{${all}})`, "commands"]]),
      panel("Redis connections", "short", [[`max(sluice_redis_clients{${all}})`, "connections"]]),
      panel("Frames and envelopes", "short", [
        [`sum(${rate("sluice_frames_sent_total")})`, "frames sent"],
        [`sum(${rate("sluice_frames_received_total")})`, "frames received"],
        [`sum(${rate("sluice_publishes_total")})`, "envelopes published"],
      ]),
      panel("Lost and repeated", "short", [
        [`sum(${rate("sluice_frames_resent_total")})`, "frames sent again"],
        [`sum(${rate("sluice_publish_failures_total")})`, "envelopes that failed"],
        [`sum(${rate("sluice_unreadable_envelopes_total")})`, "envelopes that could not be read"],
        [`count(sluice_relay_connected{${all}} == 0) or vector(0)`, "processes without the relay"],
      ]),
    ],
  },
  {
    title: "Ledger, keys and content",
    panels: [
      panel("Ledger lag", "s", [[`min(sluice_ledger_lag_seconds{${all}})`, "lag"]], { alarmFrom: 60 }),
      panel("Usage records", "short", [
        [`sum(${rate("sluice_usage_written_records_total")})`, "written per second"],
        [`sum(sluice_usage_pending_records{${all}})`, "in memory"],
        [`max(sluice_ledger_invalid_records{${all}})`, "put aside"],
        [`sum(sluice_usage_lost_records_total{${all}})`, "lost"],
      ]),
      panel(
        "Vendors' batches with lines left over",
        "short",
        [[`sum(increase(sluice_vendor_batches_failed_total{${all}}[1h]))`, "in an hour"]],
        { description: "Refused, failed or unreadable; control's log has the reasons." },
      ),
      panel("Usage records in files", "bytes", [[`sum(sluice_usage_spooled_bytes{${all}})`, "bytes"]]),
      panel(
        "Units without a price",
        "short",
        [[`sum by (kind) (${rate("sluice_unpriced_units_total")})`, "{{kind}} per second"]],
        { description: "Upstreams report them, and the catalogue has no price for them." },
      ),
      panel(
        "Usage above what is possible",
        "short",
        [[`sum by (upstream, model) (${rate("sluice_capped_usage_total")})`, "{{upstream}}: {{model}}"]],
        {
          description:
            "An upstream reported more than the model and the request allow; the most that they allow is charged.",
        },
      ),
      panel("Budget differences", "short", [[`max(sluice_budget_differences_total{${all}})`, "corrected"]]),
      panel("Keys", "short", [
        [`max(sluice_keys{${all}})`, "known to ingresses"],
        [`max(sluice_keys_behind{${all}})`, "1: Redis may lack a change"],
      ]),
      panel("Content of requests", "reqps", [
        [`sum(${rate("sluice_content_written_total")})`, "stored"],
        [`sum(${rate("sluice_content_lost_total")})`, "lost"],
      ]),
    ],
  },
  {
    title: "Operators' controls",
    panels: [
      panel(
        "In force",
        "short",
        [[`max by (kind, name, state) (sluice_operator_control{${all}})`, "{{kind}} {{name}}: {{state}}"]],
        {
          kind: "table",
          description: "Queues that are paused or drained, and targets that an operator keeps open.",
        },
      ),
    ],
  },
];

const datasource = { type: "prometheus", uid: "$datasource" };

/** The panel at a place of the grid, which is 24 wide. */
function panelOf({ title, description, kind, unit, queries, alarmFrom }: Panel, id: number, gridPos: object) {
  const red = alarmFrom === undefined ? [] : [{ color: "red", value: alarmFrom }];
  return {
    id,
    type: kind,
    title,
    ...(description !== "" && { description }),
    datasource,
    gridPos,
    targets: queries.map(({ expr, legend }, index) => ({
      refId: String.fromCharCode(65 + index),
      datasource,
      expr,
      legendFormat: legend,
      ...(kind === "table" ? { instant: true, format: "table" } : { range: true }),
    })),
    fieldConfig: {
      defaults: {
        unit,
        min: 0,
        thresholds: { mode: "absolute", steps: [{ color: "green", value: null }, ...red] },
        ...(kind === "timeseries" && {
          custom: {
            fillOpacity: 8,
            showPoints: "never",
            thresholdsStyle: { mode: alarmFrom === undefined ? "off" : "line" },
          },
        }),
      },
      overrides: [],
    },
    options: {
      ...(kind === "timeseries" && {
        legend: { displayMode: "list", placement: "bottom", showLegend: true, calcs: [] },
        tooltip: { mode: "multi", sort: "desc" },
      }),
      ...(kind === "stat" && {
        reduceOptions: { calcs: ["lastNotNull"], fields: "", values: false },
        colorMode: "value",
        graphMode: "area",
        textMode: "auto",
        orientation: "auto",
        justifyMode: "auto",
        wideLayout: true,
        showPercentChange: false,
        percentChangeColorMode: "standard",
      }),
      ...(kind === "table" && { frameIndex: 0, showHeader: true, cellHeight: "sm" }),
    },
  };
}

function panelsOf() {
  const panels: object[] = [];
  let y = 0;
  for (const { title, panels: members } of rows) {
    panels.push({
      id: panels.length + 1,
      type: "row",
      title,
      collapsed: false,
      panels: [],
      gridPos: { h: 1, w: 24, x: 0, y },
    });
    y++;
    const isOverview = members.every(({ kind }) => kind === "stat");
    const [w, h] = isOverview ? [6, 4] : [8, 8];
    members.forEach((member, index) => {
      const x = (index * w) % 24;
      panels.push(panelOf(member, panels.length + 1, { h, w, x, y: y + h * Math.floor((index * w) / 24) }));
    });
    y += h * Math.ceil((members.length * w) / 24);
  }
  return panels;
}

/** A variable that lists the values of a label; all of them by default. */
const variable = (name: string, metric: string, label: string) => ({
  name,
  label: name,
  type: "query",
  datasource,
  query: { query: `label_values(${metric}, ${label})`, refId: name },
  definition: `label_values(${metric}, ${label})`,
  refresh: 2,
  sort: 1,
  multi: true,
  includeAll: true,
  // Also matches series without the label.
  allValue: ".*",
  current: { selected: true, text: ["All"], value: ["$__all"] },
  hide: 0,
  options: [],
});

/** The file's text. */
export function dashboardOf(): string {
  const dashboard = {
    uid: "sluice",
    title: "Sluice",
    description: "A model gateway: queues, latency, errors, upstreams, processes, Redis, ledger.",
    tags: ["sluice"],
    schemaVersion: 39,
    version: 1,
    editable: true,
    graphTooltip: 1,
    refresh: "10s",
    timezone: "browser",
    time: { from: "now-1h", to: "now" },
    templating: {
      list: [
        {
          name: "datasource",
          label: "data source",
          type: "datasource",
          query: "prometheus",
          refresh: 1,
          hide: 0,
          includeAll: false,
          multi: false,
          options: [],
        },
        variable("namespace", "sluice_ready", "namespace"),
        variable("queue", `sluice_generations{${all}}`, "queue"),
        variable("upstream", `sluice_upstream_calls_total{${all}}`, "upstream"),
      ],
    },
    annotations: { list: [] },
    links: [],
    panels: panelsOf(),
  };
  return `${JSON.stringify(dashboard, null, 2)}\n`;
}

if (import.meta.main) writeFileSync(dashboardFile, dashboardOf());
