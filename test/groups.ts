/**
 * Which test files share a process. To load the gateway takes longer than most files' tests, so the
 * files of a group run in one process, one after the other; each starts what it needs, and stops it
 * at its end. A file has a process of its own if it is in no group: one that changes or measures
 * its process, that waits for long, or that prepares in `before`, which a file in a group does not
 * wait for.
 */
import { globSync } from "node:fs";
import { join } from "node:path";

const groups = {
  pure: [
    "{boundaries,examples,monitoring,reference,security,words}.test.ts",
    "chaos/run/*.test.ts",
    "control/batches/{error-groups,formats,input-check,line-sender,state}.test.ts",
    "cli/{catalogue,lock,redis-program,roles,test-programs}.test.ts",
    "console/{amounts,cost,dialects,error-texts,snippets,sources,stored-content,usage-series}.test.ts",
    "control/csv.test.ts",
    "infra/complete-lock.test.ts",
    "ingress/{admission,generation}/*.test.ts",
    "ingress/common/{capacity,labels}.test.ts",
    "ingress/observability/trace-subscriber.test.ts",
    "ingress/response/generation-response.test.ts",
    "libs/{dialects,events,operations,wire}/**/*.test.ts",
    "libs/relay/*.test.ts",
    "libs/tracing/{sampling,trace-context}.test.ts",
    "libs/catalogue/{load,vendors,wildcards}.test.ts",
    "mutation/*.test.ts",
    "simulator/{answer,dialects}/*.test.ts",
    "simulator/settings.test.ts",
    "support/unfollowed-promises.test.ts",
    "worker/{answer,attempt,observability}/*.test.ts",
  ],
  browsers: ["console/{journey,pages}.test.ts"],
  clients: ["clients/*.test.ts"],
  control: [
    "control/{access,alerts,batch-api,budgets,catalogue,catalogue-diff,catalogue-entries,conditions,content,credentials,prices,exposure,input,keys,mail}.test.ts",
  ],
  "control-2": [
    "cli/batches.test.ts",
    "control/batches/{anthropic,gemini,losses,openai,vendor-steps}.test.ts",
    "control/{file-store,files,webhook-deliveries,webhooks}.test.ts",
  ],
  "control-3": ["control/{gateway,internal-server,reference-page,sign-in,transfer}.test.ts"],
  ingress: [
    "ingress/{background,content,request,server,stored}/*.test.ts",
    "ingress/common/{outlast-redis,redis-space,sealing,vendor-paths}.test.ts",
    "ingress/observability/log-subscriber.test.ts",
    "ingress/response/{content-text,interactions,logged-response,ollama-response}.test.ts",
    "ingress/{file-rewrites,ingress}.test.ts",
  ],
  ledger: [
    "control/{ledger,ledger-sums,members,operations,providers,settings,usage,usage-export,usage-kinds,vendor-files,views}.test.ts",
  ],
  libraries: [
    "libs/{access,content,ledger,objects,service}/*.test.ts",
    "libs/relay/redis/{bullmq-internals,mailbox,queue-slots,split-queue}.test.ts",
  ],
  media: [
    "e2e/{attached-files,attachments,audio,chat-audio,content,cors,model-lists,models,public-models,realtime,wildcards}.test.ts",
  ],
  "requests-1": [
    "e2e/{access,affinity,agent-sessions,background,background-ends,chat,diagnosis,early-limits,leaving,limit-waits,log,mirror,once,prompt-cache}.test.ts",
  ],
  "requests-2": [
    "e2e/{compressed-bodies,far-redis,operations,protocols,realtime-usage,refused-handshakes,responses-socket,resumable,secret-files,shares,stored-catalogue,upstream-tests}.test.ts",
  ],
  "requests-3": [
    "e2e/{faults,flex,functions-only,queue-place,reasoning-turns,repairs,shedding,stored-responses,strategies,strict-upstreams,unknown-paths,upstream-limits,usage,vendor-limits,verbatim}.test.ts",
  ],
  "requests-4": [
    "conformance/conformance.test.ts",
    "e2e/{bad-input,browsers,credential-leaks,large-answers}.test.ts",
    "infra/metrics.test.ts",
  ],
  worker: [
    "simulator/{batches,faults,main,prompt-cache,rate-limits,realtime,server}.test.ts",
    "worker/{attachments,preparation,routing}/*.test.ts",
    "worker/upstream/{connections,session-call,upstreams,vendor-batches}.test.ts",
    "worker/*.test.ts",
  ],
} satisfies Record<string, readonly string[]>;

const cwd = import.meta.dirname;

export type Group = keyof typeof groups;

/** Paths below this folder. */
export const filesOf = (group: Group): string[] => globSync([...groups[group]], { cwd });

/** These start first: they take longest. Those that mostly wait stand between those that work. */
const longest = [
  "types.test.ts",
  "e2e/idle.test.ts",
  "e2e/failover.test.ts",
  "groups/control.ts",
  "groups/pure.ts",
  "groups/ledger.ts",
  "chaos/redis.test.ts",
  "groups/requests-2.ts",
  "groups/requests-4.ts",
  "groups/libraries.ts",
  "groups/control-2.ts",
  "groups/requests-1.ts",
  "groups/media.ts",
  "groups/browsers.ts",
  "groups/requests-3.ts",
  "groups/control-3.ts",
  "e2e/idempotency.test.ts",
  "faults/faults.test.ts",
  "e2e/rate-limits.test.ts",
  "groups/clients.ts",
  "chaos/processes.test.ts",
  "budgets/budgets.test.ts",
  "groups/worker.ts",
  "e2e/fairness.test.ts",
  "e2e/npm-start.test.ts",
];

/** All that `npm run tests` runs, as absolute paths. */
export function testFiles(): string[] {
  const alone = globSync("**/*.test.ts", { cwd, exclude: Object.values(groups).flat() });
  const files = [...Object.keys(groups).map((group) => `groups/${group}.ts`), ...alone];
  return [...longest, ...files.filter((file) => !longest.includes(file))].map((file) => join(cwd, file));
}
