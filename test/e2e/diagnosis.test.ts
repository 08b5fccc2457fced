/** Details of a failing upstream that an operator sees, and a caller does not. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { readStream } from "../support/stream.ts";
import { until } from "../support/time.ts";
import { chatCompletion, jsonAnswer, startScriptedUpstream } from "../support/upstream.ts";
import { modelLine } from "./support.ts";

const models = {
  refused: "sim-text;status=401",
  reset: "sim-text;reset=0",
  malformed: "sim-text;tokens=6;malformed=3",
};

const boasting = JSON.stringify({
  ...JSON.parse(chatCompletion),
  usage: { prompt_tokens: 9e15, completion_tokens: 1, total_tokens: 9e15 },
});

test("the worker's log and metrics show an upstream's error, and which credential is not set", async () => {
  await using boaster = await startScriptedUpstream();
  boaster.answerWith(jsonAnswer(boasting));
  const served = Object.entries(models).map(([id, model]) => ({ id, model }));
  await using gateway = await startGateway({
    workers: [],
    catalogue:
      catalogueOf(served, `  boaster: { dialect: openai-chat, baseUrl: "${boaster.url}" }\n`) +
      modelLine({ id: "boasting", upstream: "boaster", model: "m" }),
  });
  const worker = spawn(process.execPath, ["apps/worker/main.ts", "--queues", "chat=4"], {
    env: {
      PATH: process.env.PATH,
      LOG_LEVEL: "info",
      REDIS_URL: gateway.redis.url,
      SLUICE_CATALOGUE: gateway.catalogueFile,
      SIMULATOR_URL: gateway.simulatorUrl,
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let log = "";
  worker.stdout.on("data", (chunk: Buffer) => {
    log += chunk.toString();
  });
  const lineOf = (model: string) =>
    JSON.parse(log.split("\n").find((line) => line.includes(`"model":"${model}"`)) ?? "null");
  try {
    for (const id of Object.keys(models)) {
      const response = await gateway.post({ model: id, stream: true, messages: [{ role: "user", content: "hello" }] });
      await readStream(response);
      await until(`${id} is logged`, () => log.includes(`"model":"${id}"`));
    }
    const boasted = await gateway.post({ model: "boasting", messages: [{ role: "user", content: "hello" }] });
    assert.equal(boasted.status, 200, await boasted.text());
    await until("the capped usage is logged", () => log.includes("implausible usage"));
    assert.deepEqual([lineOf("boasting").level, lineOf("boasting").usage.inputTokens], [40, 100_000_000]);
    const refused = lineOf("refused");
    assert.equal(refused.outcome, "failed");
    const told = JSON.parse(log.split("\n").find((line) => line.includes("an upstream refused the gateway")) ?? "null");
    assert.deepEqual(
      [told.level, told.operatorFault, told.target, told.status],
      [50, "credential", "simulator/sim-text;status=401", 401],
    );
    assert.equal(typeof told.reason, "string");
    assert.equal(refused.upstreamAnswer.requestId, told.upstreamRequestId);
    assert.equal(refused.upstreamAnswer.status, 401);
    assert.match(lineOf("reset").upstreamAnswer.cause, /SOCKET|ECONNRESET/);
    assert.equal(lineOf("malformed").upstreamAnswer.malformedEvents, 1);
    const url = JSON.parse(log.split("\n").find((line) => line.includes('"listening"')) ?? "null").operations;
    const metrics = await (await fetch(`${url}/metrics`)).text();
    assert.match(metrics, /sluice_upstream_errors_total{upstream="simulator",code="upstream_failed",status="401"} 1/);
    assert.match(metrics, /sluice_upstream_malformed_events_total{upstream="simulator"} 1/);
    assert.match(metrics, /sluice_worker_generations_total{queue="chat",outcome="failed"} 3/);
    assert.match(metrics, /sluice_catalogue_info{version="[0-9a-f]{16}"} 1/);
    assert.match(metrics, /sluice_catalogue_refused 0/);
  } finally {
    worker.kill("SIGTERM");
    await once(worker, "exit");
  }
});
