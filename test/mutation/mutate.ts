/**
 * `npm run test:mutation`: changes one place of the sources at a time and looks whether their tests
 * notice. `--write` writes docs/mutation.md, `--only relay` takes one part, `--sample 200` so many
 * mutants of each part (always the same ones).
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { type Mutant, mutantsOf } from "./mutants.ts";

/** Paths that are copied for each runner: mutants are never written into the sources themselves. */
const copied = ["apps", "libs", "test", "infra", "docs", "package.json", "catalogue.yaml", "tsconfig.json"];
const runners = 2;
/** A test run that takes so long has lost its way. */
const timeoutMs = 120_000;

interface Part {
  name: string;
  files: string[];
  /** One after the other, until one fails: the quick ones first. */
  tests: string[][];
}

const under = (folder: string, names: string) => names.split(" ").map((name) => `${folder}/${name}`);

const parts: readonly Part[] = [
  {
    name: "relay",
    files: under(
      "libs/relay",
      "admission-queue.ts fair-queue.ts frame.ts job.ts link.ts owner.ts runner.ts redis/bullmq-internals.ts redis/job-queue.ts redis/job-worker.ts redis/mailbox.ts redis/queue-slots.ts",
    ),
    tests: [
      under(
        "test/libs/relay",
        "owner.test.ts runner.test.ts fair-queue.test.ts admission-queue.test.ts simulation.test.ts",
      ),
      under("test/libs/relay/redis", "bullmq-internals.test.ts job-queue.test.ts mailbox.test.ts queue-slots.test.ts"),
    ],
  },
  {
    name: "access",
    files: under(
      "libs/access",
      "authenticate.ts follow.ts key.ts rate-limit-scripts.ts rate-limits.ts projection.ts record.ts",
    ),
    tests: [
      under("test/libs/access", "authenticate.test.ts key.test.ts rate-limits.test.ts"),
      under("test/libs/access", "follow.test.ts limit-model.test.ts"),
    ],
  },
  {
    name: "retry",
    files: under("apps/worker", "routing/retry-state.ts routing/circuit-breakers.ts attachments/pace.ts"),
    tests: [
      under(
        "test/worker",
        "routing/retry-state.test.ts routing/circuit-breakers.test.ts attachments/pace.test.ts answer/answer.test.ts",
      ),
    ],
  },
];

interface Judged {
  file: string;
  mutant: Mutant;
  survived: boolean;
}

const { values } = parseArgs({
  options: { write: { type: "boolean", default: false }, only: { type: "string" }, sample: { type: "string" } },
});
const root = join(import.meta.dirname, "..", "..");

/** The same ones at every run. */
function sampleOf<Item>(items: Item[], count: number): Item[] {
  if (items.length <= count) return items;
  const step = items.length / count;
  return Array.from({ length: count }, (_, place) => items[Math.floor(place * step)] as Item);
}

/**
 * Stops at the first failure: a mutant that many tests notice would keep each of them waiting until
 * its own time limit.
 */
async function passes(directory: string, tests: string[]): Promise<boolean> {
  const child = spawn(
    process.execPath,
    ["--import", "./test/support/properties.ts", "--test", "--test-force-exit", "--test-reporter=tap", ...tests],
    {
      cwd: directory,
      env: { ...process.env, SIMULATION_SEEDS: "100", NODE_TEST_CONTEXT: undefined, TMPDIR: join(directory, "tmp") },
      stdio: ["ignore", "pipe", "ignore"],
      detached: true,
    },
  );
  const exited = once(child, "exit");
  const stop = () => {
    if (child.exitCode === null && child.signalCode === null) process.kill(-(child.pid as number), "SIGKILL");
  };
  const timer = setTimeout(stop, timeoutMs);
  let hasFailed = false;
  for await (const line of createInterface({ input: child.stdout })) {
    if (hasFailed || !/^\s*not ok /.test(line)) continue;
    hasFailed = true;
    stop();
  }
  const [code] = await exited;
  clearTimeout(timer);
  return code === 0 && !hasFailed;
}

async function survives(directory: string, file: string, mutant: Mutant, tests: string[][]): Promise<boolean> {
  const path = join(directory, file);
  const original = await readFile(path, "utf8");
  await writeFile(path, mutant.text);
  try {
    for (const some of tests) if (!(await passes(directory, some))) return false;
    return true;
  } finally {
    await writeFile(path, original);
  }
}

async function judge({ name, files, tests }: Part, directories: string[]): Promise<Judged[]> {
  for (const some of tests)
    if (!(await passes(directories[0] as string, some)))
      throw new Error(`the tests of ${name} fail without any mutant`);
  const texts = await Promise.all(
    files.map(async (file) => ({ file, text: await readFile(join(root, file), "utf8") })),
  );
  const all = texts.flatMap(({ file, text }) => mutantsOf(text).map((mutant) => ({ file, mutant })));
  const waiting = sampleOf(all, Number(values.sample ?? Number.POSITIVE_INFINITY));
  const judged: Judged[] = [];
  await Promise.all(
    directories.map(async (directory) => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        const survived = await survives(directory, next.file, next.mutant, tests);
        judged.push({ ...next, survived });
        if (survived)
          process.stdout.write(`${next.file}:${next.mutant.line}  ${next.mutant.before}  →  ${next.mutant.after}\n`);
      }
    }),
  );
  const killed = judged.filter(({ survived }) => !survived).length;
  process.stdout.write(`${name}: ${killed} of ${judged.length} mutants of ${all.length} noticed\n`);
  return judged;
}

const percent = (judged: Judged[]) =>
  Math.round((100 * judged.filter(({ survived }) => !survived).length) / Math.max(1, judged.length));

function pageOf(results: { part: Part; judged: Judged[] }[]): string {
  const rows = results.flatMap(({ part, judged }) =>
    part.files.flatMap((file) => {
      const own = judged.filter((one) => one.file === file);
      if (own.length === 0) return [];
      return `| ${part.name} | \`${file}\` | ${own.length} | ${own.filter(({ survived }) => !survived).length} | ${percent(own)} % |`;
    }),
  );
  const totals = results.map(({ part, judged }) => `**${part.name}** ${percent(judged)} % of ${judged.length}`);
  return `# Mutation score

\`npm run test:mutation -- --write\` generates this page. It changes one place of the sources at a time (an operator, a condition, a removed statement) and runs
the tests beside it. A mutant that no test notices survives; some survivors change nothing that anybody could see. End-to-end tests are not run for it.
With \`--sample 30\` it judges thirty mutants of each part, spread evenly over its files.

${totals.join(", ")}.

| part | file | mutants | noticed | score |
| ---- | ---- | ------- | ------- | ----- |
${rows.join("\n")}
`;
}

const chosen = parts.filter(({ name }) => values.only === undefined || name === values.only);
const directories = await Promise.all(
  Array.from({ length: runners }, async () => {
    const directory = await mkdtemp(join(tmpdir(), "sluice-mutation-"));
    for (const name of copied) await cp(join(root, name), join(directory, name), { recursive: true });
    await mkdir(join(directory, "tmp"));
    await symlink(join(root, "node_modules"), join(directory, "node_modules"));
    return directory;
  }),
);
try {
  const results: { part: Part; judged: Judged[] }[] = [];
  for (const part of chosen) results.push({ part, judged: await judge(part, directories) });
  if (values.write) await writeFile(join(root, "docs", "mutation.md"), pageOf(results));
} finally {
  for (const directory of directories) await rm(directory, { recursive: true, force: true });
}
