/**
 * For every alert of infra/prometheus/alerts.yml, when it fires and when it stays silent.
 * `promtool test rules` plays them (monitoring.long.ts).
 */
import { alerts, runbooks } from "./promql.ts";

interface AlertCase {
  name: string;
  /** Seconds between two values. */
  interval?: number;
  /**
   * Series with their values in promtool's notation. Without these labels a series is of the job
   * `sluice` and of the namespace `ai`.
   */
  series: Record<string, string>;
  /** Silent at the times without alerts. */
  expectations: Expectation[];
}

interface Expectation {
  alert: string;
  at: string;
  /** The labels besides the severity and the namespace `ai`, with the summary. */
  firing?: { labels?: Record<string, string>; summary: string }[];
}

const fires = (
  alert: string,
  at: string,
  summary: string,
  labels: Record<string, string> = {},
): Required<Expectation> => ({ alert, at, firing: [{ summary, labels }] });
const isSilent = (alert: string, ...times: string[]): Expectation[] => times.map((at) => ({ alert, at }));

const chat = { queue: "chat" };
/** The labels of an alert about one process. */
const processOf = (instance: string) => ({ instance, job: "sluice" });
const noWorker = "Requests wait on the queue chat, and no worker takes them.";
const waitsOf = (queue: string, waitMax: number, values: string) => ({
  [`sluice_oldest_wait_seconds{instance="a",queue="${queue}"}`]: values,
  [`sluice_oldest_wait_seconds{instance="b",queue="${queue}"}`]: "0x400",
  [`sluice_queue_wait_max_seconds{instance="a",queue="${queue}"}`]: `${waitMax}x400`,
});
const pausedChat = { 'sluice_operator_control{instance="a",kind="queue",name="chat",state="paused"}': "1x400" };
const caseOf = (name: string, series: Record<string, string>, expectations: Expectation[]): AlertCase => ({
  name,
  series,
  expectations,
});

export const cases: AlertCase[] = [
  caseOf(
    "a process of the gateway that is silent, one of somebody else, and one that starts",
    {
      'up{instance="a"}': "1x2 0x20",
      'up{instance="new"}': "0x3 1x20",
      'up{instance="other",job="database"}': "0x30",
    },
    [
      ...isSilent("SluiceProcessSilent", "1m"),
      fires("SluiceProcessSilent", "3m", "The process a does not answer.", processOf("a")),
    ],
  ),
  {
    name: "a gateway whose ingresses have vanished, beside one that serves and one that starts",
    series: {
      'up{instance="a",namespace="eu"}': "1x10 stale",
      'sluice_ready{instance="a",namespace="eu",role="ingress"}': "1x10 stale",
      'up{instance="b",namespace="us"}': "1x60",
      'sluice_ready{instance="b",namespace="us",role="ingress"}': "1x60",
      'up{instance="c",namespace="asia"}': "0x1 1x60",
      'sluice_ready{instance="c",namespace="asia",role="ingress"}': "_ _ 1x60",
    },
    expectations: [
      ...isSilent("SluiceNoIngress", "2m30s"),
      fires("SluiceNoIngress", "4m", "No ingress of eu is ready, so no caller is served.", { namespace: "eu" }),
    ],
  },
  {
    name: "ingresses that are not ready, and then are",
    series: {
      'up{instance="a"}': "1x30",
      'sluice_ready{instance="a",role="ingress"}': "0x8 1x20",
      'sluice_ready{instance="w",role="worker"}': "1x30",
    },
    expectations: [
      fires("SluiceNoIngress", "1m", "No ingress of ai is ready, so no caller is served."),
      ...isSilent("SluiceNoIngress", "4m"),
    ],
  },
  {
    name: "nothing of the gateway is there",
    series: { 'up{instance="x",job="database"}': "1x30" },
    expectations: [
      {
        alert: "SluiceNoIngress",
        at: "1m",
        firing: [{ labels: { job: "sluice", namespace: "" }, summary: "No ingress is ready, so no caller is served." }],
      },
    ],
  },
  {
    name: "a rollout: the old process drains for an hour, the new one starts; and one that has no link",
    series: {
      'sluice_ready{instance="old",role="worker"}': "1x2 0x240",
      'sluice_draining{instance="old",role="worker"}': "0x2 1x240",
      'sluice_ready{instance="new",role="worker"}': "0x4 1x240",
      'sluice_draining{instance="new",role="worker"}': "0x240",
      'sluice_ready{instance="cut",role="worker"}': "1x40 0x200",
      'sluice_draining{instance="cut",role="worker"}': "0x240",
    },
    expectations: [
      ...isSilent("SluiceNotReady", "3m", "8m", "10m"),
      fires("SluiceNotReady", "13m", "The worker cut is not ready.", { ...processOf("cut"), role: "worker" }),
    ],
  },
  caseOf(
    "the event loop of one process, and of one with the same address in another cluster",
    {
      'nodejs_eventloop_lag_p99_seconds{instance="a"}': "0.5x30",
      'nodejs_eventloop_lag_p99_seconds{instance="w"}': "0.011x30",
      'nodejs_eventloop_lag_p99_seconds{instance="x",job="shop"}': "9x30",
      'sluice_process_info{instance="a",role="ingress",version="0.2.0"}': "1x30",
      'sluice_process_info{instance="a",namespace="us",role="worker",version="0.2.0"}': "1x30",
      'sluice_process_info{instance="w",role="worker",version="0.2.0"}': "1x30",
    },
    [
      ...isSilent("SluiceEventLoopDelay", "1m"),
      fires("SluiceEventLoopDelay", "3m", "The event loop of the ingress a is 500ms late.", {
        ...processOf("a"),
        role: "ingress",
      }),
    ],
  ),
  caseOf(
    "open files, of the gateway and of others",
    {
      'process_open_fds{instance="a"}': "50x4 85x20",
      'process_max_fds{instance="a"}': "100x30",
      'process_open_fds{instance="x",job="shop"}': "99x30",
      'process_max_fds{instance="x",job="shop"}': "100x30",
    },
    [
      ...isSilent("SluiceOpenFiles", "1m30s"),
      fires(
        "SluiceOpenFiles",
        "3m",
        "The process a uses 85% of its open files. An ingress above 90 % is not ready.",
        processOf("a"),
      ),
    ],
  ),
  caseOf(
    "limits of an ingress: one is reached, one is not, one is off",
    {
      'sluice_capacity_used{instance="a",limit="generations",queue=""}': "50x8 95x20",
      'sluice_capacity_max{instance="a",limit="generations",queue=""}': "100x30",
      'sluice_capacity_used{instance="a",limit="websockets",queue=""}': "5x30",
      'sluice_capacity_max{instance="a",limit="websockets",queue=""}': "0x30",
    },
    [
      ...isSilent("SluiceIngressFull", "2m"),
      fires("SluiceIngressFull", "4m", "The ingress a uses 95% of its limit generations.", {
        instance: "a",
        limit: "generations",
      }),
    ],
  ),
  caseOf(
    "a catalogue that is refused",
    { 'sluice_catalogue_refused{instance="a"}': "0x8 1x20", 'sluice_catalogue_refused{instance="b"}': "0x30" },
    [
      ...isSilent("SluiceCatalogueRefused", "2m"),
      fires("SluiceCatalogueRefused", "4m", "The catalogue's file is invalid, and the version before it is in force."),
    ],
  ),
  caseOf(
    "versions of the catalogue: of a process that drains, and of one that serves",
    {
      'sluice_catalogue_info{instance="a",version="1"}': "1x90",
      'sluice_catalogue_info{instance="old",version="0"}': "1x90",
      'sluice_draining{instance="old",role="worker"}': "1x90",
      'sluice_catalogue_info{instance="b",version="1"}': "1x40 stale",
      'sluice_catalogue_info{instance="b",version="2"}': "_x40 1x50",
    },
    [
      ...isSilent("SluiceCatalogueDiffers", "9m"),
      fires("SluiceCatalogueDiffers", "16m", "The processes use 2 versions of the catalogue."),
    ],
  ),
  {
    name: "a queue without a worker: half of its waitMs to start one, and a drain is none",
    series: {
      ...waitsOf("chat", 60, "0 15 29 35 45 55 58x20 0x20"),
      'sluice_worker_capacity{instance="w",queue="chat"}': "512x40",
      'sluice_draining{instance="w",role="worker"}': "1x40",
    },
    expectations: [
      ...isSilent("SluiceNoWorker", "30s", "45s"),
      fires("SluiceNoWorker", "1m15s", noWorker, chat),
      ...isSilent("SluiceNoWorker", "8m"),
    ],
  },
  {
    name: "images from zero: the first worker starts within minutes, or does not",
    series: {
      ...waitsOf("image", 600, "0+15x12 0x20 0+15x40"),
      'sluice_worker_capacity{instance="w",queue="image"}': "_x12 8x20 stale",
    },
    expectations: [
      ...isSilent("SluiceNoWorker", "1m", "3m", "8m", "12m"),
      ...isSilent("SluiceRequestsWait", "1m", "3m", "8m", "12m"),
      fires("SluiceNoWorker", "14m", noWorker.replace("chat", "image"), { queue: "image" }),
    ],
  },
  {
    name: "a background queue without a worker pages after five minutes, not after half of its hour",
    series: waitsOf("background", 3_600, "0+15x40"),
    expectations: [
      ...isSilent("SluiceNoWorker", "5m"),
      fires("SluiceNoWorker", "6m", noWorker.replace("chat", "background"), { queue: "background" }),
      ...isSilent("SluiceRequestsWait", "10m"),
    ],
  },
  {
    name: "a worker that reports no capacity is none, and those of another gateway do not count",
    series: {
      ...waitsOf("chat", 60, "40x40"),
      'sluice_worker_capacity{instance="w",queue="chat"}': "0x40",
      'sluice_worker_capacity{instance="w",namespace="us",queue="chat"}': "8x40",
    },
    expectations: [fires("SluiceNoWorker", "1m", noWorker, chat)],
  },
  {
    name: "a paused queue without a worker waits because an operator wants it to",
    series: { ...waitsOf("chat", 60, "58x40"), ...pausedChat },
    expectations: [...isSilent("SluiceNoWorker", "5m"), ...isSilent("SluiceRequestsWait", "5m")],
  },
  caseOf(
    "workers of another version, for the moment of an upgrade and for longer",
    {
      'sluice_queue_protocol_mismatch{instance="a",queue="chat"}': "0x4 1x30",
      'sluice_queue_protocol_mismatch{instance="a",queue="image"}': "0x4 1x2 0x30",
    },
    [
      ...isSilent("SluiceProtocolMismatch", "2m"),
      fires(
        "SluiceProtocolMismatch",
        "4m",
        "The workers of the queue chat are of a version that cannot run the jobs of an ingress.",
        chat,
      ),
    ],
  ),
  {
    name: "requests that wait for more than half of the queue's waitMs at one of two ingresses",
    series: {
      ...waitsOf("chat", 60, "20 40 45 50 55 59 59 59 0x10"),
      ...waitsOf("image", 600, "59x20"),
      'sluice_worker_capacity{instance="w",queue="chat"}': "8x40",
    },
    expectations: [
      ...isSilent("SluiceRequestsWait", "1m"),
      fires(
        "SluiceRequestsWait",
        "1m30s",
        "The oldest request on the queue chat has waited for 59s, more than half of what it may.",
        chat,
      ),
      ...isSilent("SluiceRequestsWait", "3m"),
      ...isSilent("SluiceNoWorker", "1m30s"),
    ],
  },
  {
    name: "workers that are full, beside one that drains and is full until its end",
    series: {
      'sluice_worker_generations{instance="w",queue="chat"}': "90x30 98x90",
      'sluice_worker_capacity{instance="w",queue="chat"}': "100x120",
      'sluice_worker_generations{instance="old",queue="chat"}': "100x120",
      'sluice_worker_capacity{instance="old",queue="chat"}': "100x120",
      'sluice_draining{instance="old",role="worker"}': "1x120",
    },
    expectations: [
      ...isSilent("SluiceWorkersSaturated", "7m", "12m"),
      fires("SluiceWorkersSaturated", "20m", "The workers of the queue chat use 98% of their slots.", chat),
    ],
  },
  {
    name: "a pause that lasts for a day",
    interval: 240,
    series: { 'sluice_operator_control{instance="a",kind="queue",name="chat",state="paused"}': "1x400" },
    expectations: [
      ...isSilent("SluiceControlForgotten", "23h"),
      fires("SluiceControlForgotten", "25h", "An operator has kept the queue chat paused for a day.", {
        kind: "queue",
        name: "chat",
        state: "paused",
      }),
    ],
  },
  {
    name: "requests fail on one queue: refusals of callers, single failures and the other queue do not count",
    series: {
      'sluice_ended_generations_total{instance="a",queue="chat",outcome="complete"}': "0+90x80",
      'sluice_ended_generations_total{instance="a",queue="chat",outcome="rate_limited"}': "0+10x80",
      'sluice_ended_generations_total{instance="a",queue="image",outcome="complete"}': "0x40 0+8x40",
      'sluice_ended_generations_total{instance="a",queue="image",outcome="worker_lost"}': "0x40 0+2x40",
      'sluice_ended_generations_total{instance="a",queue="audio",outcome="complete"}': "0x4 1x80",
      'sluice_ended_generations_total{instance="a",queue="audio",outcome="upstream_failed"}': "0x4 1x10 2x80",
    },
    expectations: [
      ...isSilent("SluiceRequestsFail", "5m", "9m"),
      fires("SluiceRequestsFail", "19m", "20% of the requests on the queue image fail.", { queue: "image" }),
    ],
  },
  {
    name: "requests wait too long on a queue that an operator pauses for some minutes",
    series: {
      'sluice_ended_generations_total{instance="a",queue="chat",outcome="complete"}': "0+10x20 200x20 200+10x60",
      'sluice_ended_generations_total{instance="a",queue="chat",outcome="overloaded"}': "0x20 0+10x20 200x60",
      'sluice_operator_control{instance="a",kind="queue",name="chat",state="paused"}': "_x20 1x20 stale",
    },
    expectations: isSilent("SluiceRequestsFail", "9m", "11m", "13m", "15m", "20m"),
  },
  {
    name: "ingresses are full; a key above its share is not the gateway's failure",
    series: {
      'sluice_requests_total{instance="a",path="/v1/responses",status="200"}': "0+90x80",
      'sluice_requests_total{instance="a",path="/v1/responses",status="503"}': "0+60x80",
      'sluice_limit_refusals_total{instance="a",limit="generations",scope="key"}': "0+50x80",
      'sluice_limit_refusals_total{instance="a",limit="generations",scope="ingress"}': "0x40 0+15x40",
    },
    expectations: [
      ...isSilent("SluiceRequestsRefused", "9m"),
      fires(
        "SluiceRequestsRefused",
        "19m",
        "10% of all requests are refused, because ingresses are at their limit generations.",
        { limit: "generations" },
      ),
    ],
  },
  {
    name: "errors of the gateway's own code, of which the first one counts",
    series: { 'sluice_errors_total{instance="a",code="internal"}': "0x20 1x100" },
    expectations: [
      ...isSilent("SluiceInternalErrors", "4m"),
      fires("SluiceInternalErrors", "6m", "Requests that the gateway's own code failed in the last ten minutes: 1."),
      ...isSilent("SluiceInternalErrors", "25m"),
    ],
  },
  {
    name: "an upstream that fails, one that answers, and one with two calls in a night",
    series: {
      'sluice_upstream_calls_total{instance="w",upstream="broken",again="no"}': "0+10x60",
      'sluice_upstream_calls_total{instance="w",upstream="fine",again="no"}': "0+10x60",
      'sluice_upstream_calls_total{instance="w",upstream="quiet",again="no"}': "0x4 1x20 2x60",
      'sluice_upstream_errors_total{instance="w",upstream="broken",code="upstream_failed",status="503"}': "0+4x60",
      'sluice_upstream_errors_total{instance="w",upstream="broken",code="rate_limited",status="429"}': "0+1x60",
      'sluice_upstream_errors_total{instance="w",upstream="quiet",code="upstream_failed",status="503"}':
        "0x4 1x20 2x60",
      // The callers' own faults are not the upstream's.
      'sluice_upstream_errors_total{instance="w",upstream="fine",code="invalid_request",status="400"}': "0+9x60",
    },
    expectations: [
      ...isSilent("SluiceUpstreamFails", "3m"),
      fires("SluiceUpstreamFails", "12m", "50% of the calls of broken fail.", { upstream: "broken" }),
    ],
  },
  {
    name: "circuit breakers: one that stays open or half-open, one that closes, one that an operator keeps open",
    series: {
      'sluice_circuit_breaker_open{instance="w",target="vendor/model"}': "1x10 0.5x20",
      'sluice_circuit_breaker_open{instance="w",target="other/model"}': "1x6 stale _x23",
      'sluice_circuit_breaker_open{instance="w",target="kept/model"}': "1x30",
      'sluice_operator_control{instance="a",kind="target",name="kept/model",state="open"}': "1x30",
    },
    expectations: [
      ...isSilent("SluiceCircuitBreakerOpen", "4m"),
      fires(
        "SluiceCircuitBreakerOpen",
        "6m",
        "The circuit breaker of vendor/model has not been closed for five minutes.",
        { target: "vendor/model" },
      ),
    ],
  },
  caseOf(
    "a credential that is refused, and one whose rate is limited for a minute",
    {
      'sluice_credentials_cooling{instance="w",credential="vendor/model KEY"}': "1x40",
      'sluice_credentials_cooling{instance="w",credential="other/model KEY"}': "1x4 stale",
    },
    [
      ...isSilent("SluiceCredentialRefused", "4m"),
      fires(
        "SluiceCredentialRefused",
        "7m",
        "An upstream refuses the credential vendor/model KEY or limits its rate.",
        { credential: "vendor/model KEY" },
      ),
    ],
  ),
  {
    name: "an upstream that became slow, and one whose images always take two minutes",
    interval: 60,
    series: {
      'sluice_upstream_first_token_seconds_bucket{instance="w",upstream="chat",le="1"}': "0+10x1440 14400x60",
      'sluice_upstream_first_token_seconds_bucket{instance="w",upstream="chat",le="60"}': "0+10x1500",
      'sluice_upstream_first_token_seconds_bucket{instance="w",upstream="chat",le="+Inf"}': "0+10x1500",
      'sluice_upstream_first_token_seconds_bucket{instance="w",upstream="image",le="60"}': "0x1500",
      'sluice_upstream_first_token_seconds_bucket{instance="w",upstream="image",le="120"}': "0+10x1500",
      'sluice_upstream_first_token_seconds_bucket{instance="w",upstream="image",le="+Inf"}': "0+10x1500",
    },
    expectations: [
      ...isSilent("SluiceSlowFirstContent", "2h", "23h"),
      fires(
        "SluiceSlowFirstContent",
        "24h35m",
        "chat takes 57.05s until its first content, for one call in twenty: twice as long as yesterday.",
        { upstream: "chat" },
      ),
    ],
  },
  caseOf(
    "a process without a link to Redis",
    { 'sluice_relay_connected{instance="a"}': "1x4 0x20", 'sluice_relay_connected{instance="b"}': "0 1x30" },
    [
      ...isSilent("SluiceRelayDown", "1m"),
      fires("SluiceRelayDown", "2m", "The process a has no link to Redis.", processOf("a")),
    ],
  ),
  caseOf(
    "Redis is slow for one process, and then for all",
    {
      'sluice_redis_round_trip_seconds{instance="a"}': "0.5x40",
      'sluice_redis_round_trip_seconds{instance="b"}': "0.001x12 0.25x40",
    },
    [
      ...isSilent("SluiceRedisSlow", "3m"),
      fires("SluiceRedisSlow", "5m", "A round trip to Redis takes 250ms in every process."),
    ],
  ),
  caseOf(
    "Redis' memory, with and without a limit",
    {
      'sluice_redis_memory_bytes{instance="c"}': "950x30",
      'sluice_redis_memory_max_bytes{instance="c"}': "0x10 1000x20",
    },
    [...isSilent("SluiceRedisMemory", "2m"), fires("SluiceRedisMemory", "5m", "Redis uses 95% of its maxmemory.")],
  ),
  caseOf(
    "the ledger of two controls, without a reading and while one is behind",
    {
      'sluice_ledger_lag_seconds{instance="c"}': "_x40 300x40",
      'sluice_ledger_lag_seconds{instance="d"}': "_x40 1x10 200x30",
    },
    [
      ...isSilent("SluiceLedgerBehind", "9m", "12m"),
      fires(
        "SluiceLedgerBehind",
        "19m",
        "Usage records have waited for 3m 20s, because control or its database is down or slow.",
      ),
    ],
  ),
  {
    name: "a control that has vanished, beside a gateway without control",
    series: {
      'sluice_ready{instance="c",namespace="eu",role="control"}': "1x10 stale",
      'sluice_ready{instance="c",namespace="us",role="control"}': "1x60",
      'sluice_ready{instance="a",role="ingress"}': "1x60",
    },
    expectations: [
      ...isSilent("SluiceNoControl", "5m"),
      fires(
        "SluiceNoControl",
        "9m",
        "No control of eu is ready. Requests are served; keys cannot be changed, and usage records wait.",
        { namespace: "eu" },
      ),
    ],
  },
  caseOf("records that are put aside", { 'sluice_ledger_invalid_records{instance="c"}': "0x4 2x4" }, [
    ...isSilent("SluiceInvalidUsageRecords", "30s"),
    fires("SluiceInvalidUsageRecords", "2m", "The ledger put 2 usage records aside, so their cost is counted nowhere."),
  ]),
  caseOf("usage records that are lost", { 'sluice_usage_lost_records_total{instance="a"}': "0x20 8x60" }, [
    ...isSilent("SluiceUsageLost", "4m", "18m"),
    fires(
      "SluiceUsageLost",
      "8m",
      "Usage records lost in the last ten minutes, because neither Redis nor a disk took them: 8.",
    ),
  ]),
  {
    name: "budgets that one control corrected, while another one starts anew",
    interval: 60,
    series: {
      'sluice_budget_differences_total{instance="c"}': "0x30 3x120",
      'sluice_budget_differences_total{instance="d"}': "9x30 0x120",
    },
    expectations: [
      ...isSilent("SluiceBudgetDifferences", "20m", "2h20m"),
      fires(
        "SluiceBudgetDifferences",
        "50m",
        "Budgets in Redis that differed from the ledger in the last hour and were corrected: 3.",
      ),
    ],
  },
  caseOf("keys that are behind", { 'sluice_keys_behind{instance="c"}': "0 1 0 0 1x20" }, [
    ...isSilent("SluiceKeysBehind", "1m15s"),
    fires("SluiceKeysBehind", "3m", "Redis may lack a change of keys, such as a revocation."),
  ]),
  caseOf("content that is lost", { 'sluice_content_lost_total{instance="a"}': "0x20 4x60" }, [
    ...isSilent("SluiceContentLost", "4m", "18m"),
    fires(
      "SluiceContentLost",
      "8m",
      "Requests of the last ten minutes whose content was lost, of accounts that store it: 4.",
    ),
  ]),
];

/** `name{…}` with the default labels that it lacks. */
function seriesOf(text: string): string {
  const defaults = Object.entries({ job: "sluice", namespace: "ai" }).filter(([label]) => !text.includes(`${label}="`));
  return text.replace(/\}$/, `${defaults.map(([label, value]) => `,${label}="${value}"`).join("")}}`);
}

/** The file for `promtool test rules`; YAML that is JSON. */
export function promtoolTestsOf(ruleFile: string, runbookPage?: string): string {
  const rules = new Map(alerts.map((rule) => [rule.alert, rule]));
  const alertOf = (alert: string, { labels = {}, summary }: NonNullable<Expectation["firing"]>[number]) => {
    const { labels: own, annotations } = rules.get(alert)!;
    const all = Object.entries({ ...own, namespace: "ai", ...labels }).filter(([, value]) => value !== "");
    return {
      exp_labels: Object.fromEntries(all),
      exp_annotations: {
        summary,
        runbook_url: annotations.runbook_url.replace(runbooks, runbookPage ?? "docs/operations.md"),
      },
    };
  };
  return JSON.stringify({
    rule_files: [ruleFile],
    evaluation_interval: "15s",
    tests: cases.map(({ name, interval = 15, series, expectations }) => ({
      name,
      interval: `${interval}s`,
      ...(runbookPage !== undefined && { external_labels: { sluice_runbooks: runbookPage } }),
      input_series: Object.entries(series).map(([text, values]) => ({ series: seriesOf(text), values })),
      alert_rule_test: expectations.map(({ alert, at, firing = [] }) => ({
        alertname: alert,
        eval_time: at,
        exp_alerts: firing.map((expected) => alertOf(alert, expected)),
      })),
    })),
  });
}
