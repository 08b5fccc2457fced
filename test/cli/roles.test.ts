import assert from "node:assert/strict";
import { test } from "node:test";
import { roleEnvironmentOf } from "../../apps/cli/roles.ts";

const environment = {
  PATH: "/bin",
  HTTPS_PROXY: "http://proxy.example",
  REDIS_URL: "unix:///redis.sock",
  VENDOR_LOGIN: "named by the catalogue",
  AWS_SECRET_ACCESS_KEY: "looks like a secret",
  EMPTY_API_KEY: "",
  MONKEY: "no secret",
  OPERATOR_PASSWORD: "operator",
  OPERATOR_TOKEN: "token",
  DATABASE_URL: "postgres://user:password@host/database",
  AUTH_SECRET: "secret of sign-in",
  OIDC_CLIENT_SECRET: "secret of the provider",
  SMTP_URL: "smtps://user:password@mail.example",
  ALERT_WEBHOOK_SECRET: "secret of the webhook",
  ALERT_WEBHOOK_URL: "https://hooks.example/secret",
  OPERATOR_PASSWORD_FILE: "/run/secrets/password",
  VENDOR_KEY_FILE: "/run/secrets/vendor",
  VENDOR_SECOND_LOGIN_FILE: "/run/secrets/second",
  SSL_CERT_FILE: "/etc/ssl/cert.pem",
  npm_config_registry: "https://registry.example",
  NODE_CHANNEL_FD: "3",
};
const named = new Set(["VENDOR_LOGIN", "VENDOR_SECOND_LOGIN"]);

test("the worker receives the whole environment except what only ingress or control need", () => {
  const {
    OPERATOR_PASSWORD: _,
    OPERATOR_TOKEN: __,
    DATABASE_URL: ___,
    AUTH_SECRET: ____,
    OIDC_CLIENT_SECRET: _____,
    SMTP_URL: ______,
    ALERT_WEBHOOK_SECRET: _______,
    ALERT_WEBHOOK_URL: ________,
    OPERATOR_PASSWORD_FILE: _________,
    npm_config_registry: __________,
    NODE_CHANNEL_FD: ___________,
    ...expected
  } = environment;
  assert.deepEqual(roleEnvironmentOf("worker", environment, named), expected);
});

test("the ingress sees which secrets are set, and of their values only the operator's password", () => {
  assert.deepEqual(roleEnvironmentOf("ingress", environment, named), {
    PATH: "/bin",
    HTTPS_PROXY: "http://proxy.example",
    REDIS_URL: "unix:///redis.sock",
    VENDOR_LOGIN: "configured",
    AWS_SECRET_ACCESS_KEY: "configured",
    MONKEY: "no secret",
    VENDOR_KEY: "configured",
    VENDOR_SECOND_LOGIN: "configured",
    SSL_CERT_FILE: "/etc/ssl/cert.pem",
    OPERATOR_PASSWORD: "operator",
    OPERATOR_PASSWORD_FILE: "/run/secrets/password",
  });
});

test("control sees which secrets are set, and of their values only its own", () => {
  assert.deepEqual(roleEnvironmentOf("control", environment, named), {
    PATH: "/bin",
    HTTPS_PROXY: "http://proxy.example",
    REDIS_URL: "unix:///redis.sock",
    VENDOR_LOGIN: "configured",
    AWS_SECRET_ACCESS_KEY: "configured",
    MONKEY: "no secret",
    VENDOR_KEY: "configured",
    VENDOR_SECOND_LOGIN: "configured",
    SSL_CERT_FILE: "/etc/ssl/cert.pem",
    ALERT_WEBHOOK_SECRET: "secret of the webhook",
    ALERT_WEBHOOK_URL: "https://hooks.example/secret",
    OPERATOR_TOKEN: "token",
    DATABASE_URL: "postgres://user:password@host/database",
    AUTH_SECRET: "secret of sign-in",
    OIDC_CLIENT_SECRET: "secret of the provider",
    SMTP_URL: "smtps://user:password@mail.example",
  });
});

test("the simulator receives neither secrets nor Redis", () => {
  assert.deepEqual(roleEnvironmentOf("simulator", environment, named), {
    PATH: "/bin",
    HTTPS_PROXY: "http://proxy.example",
    MONKEY: "no secret",
    SSL_CERT_FILE: "/etc/ssl/cert.pem",
  });
});
