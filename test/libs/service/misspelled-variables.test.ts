import assert from "node:assert/strict";
import { test } from "node:test";
import { misspelledVariablesOf } from "#service/misspelled-variables.ts";

const catalogue = { credentialVariables: ["OPENAI_API_KEY", "SECOND_KEY"], addressVariables: ["VLLM_URL"] };
const nearestTo = (variable: string) => misspelledVariablesOf({ [variable]: "value" }, catalogue)[0]?.nearest;

test("a variable that looks like one of a setting or of the catalogue is found with the nearest name", () => {
  for (const [variable, nearest] of [
    ["REDIS_ULR", "REDIS_URL"],
    ["REDIS_URI", "REDIS_URL"],
    ["REDISURL", "REDIS_URL"],
    ["PROT", "PORT"],
    ["port", "PORT"],
    ["OPERATOR_TOKN", "OPERATOR_TOKEN"],
    ["OPERATOR_TOKN_FILE", "OPERATOR_TOKEN_FILE"],
    ["OPERATOR_TOKEN_FIEL", "OPERATOR_TOKEN_FILE"],
    ["OPENAI_APIKEY", "OPENAI_API_KEY"],
    ["OPENAI_API_KEYFILE", "OPENAI_API_KEY_FILE"],
    ["VLM_URL", "VLLM_URL"],
    ["BODY_BYTE_MAX", "BODY_BYTES_MAX"],
    ["SLUICE_CATALOG", "SLUICE_CATALOGUE"],
    ["SLUICE_REDIS_URL", "REDIS_URL"],
    ["SLUICE_PORT", "PORT"],
    ["SLUICE_CATALOGUE_PATH", "SLUICE_CATALOGUE"],
    ["OTEL_EXPORTER_OLTP_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"],
  ] as const)
    assert.equal(nearestTo(variable), nearest, variable);
});

test("variables of settings and those of other programs are not found", () => {
  const names = [
    ["REDIS_URL", "REDIS_URL_FILE", "OPENAI_API_KEY_FILE", "ANSWER_BYTES_MAX", "ANSWERS_BYTES_MAX", "VLLM_URL"],
    ["http_proxy", "HTTPS_PROXY", "no_proxy", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "SLUICE_CONTROL_URL"],
    ["HOME", "HOSTNAME", "PATH", "PWD", "USER", "LOGNAME", "LANG", "TERM", "SHELL", "TMPDIR", "TZ", "EDITOR", "MAIL"],
    ["NODE_ENV", "NODE_OPTIONS", "SSL_CERT_FILE", "KUBERNETES_PORT", "KUBERNETES_SERVICE_HOST", "REDIS_PORT", "PGHOST"],
    ["POSTGRES_PASSWORD", "REDIS_PASSWORD", "GOOGLE_APPLICATION_CREDENTIALS", "AWS_ACCESS_KEY_ID", "CI", "DEBUG"],
  ].flat();
  const environment = Object.fromEntries(names.map((name) => [name, "value"]));
  assert.deepEqual(misspelledVariablesOf(environment, catalogue), []);
  assert.deepEqual(misspelledVariablesOf({ REDIS_ULR: "", REDIS_URI: undefined }), []);
});

test("at most twenty are found, and names without bound are left out", () => {
  const environment = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`SLUICE_${index}`, "value"]));
  assert.equal(misspelledVariablesOf({ [`SLUICE_${"X".repeat(200)}`]: "value", ...environment }).length, 20);
});
