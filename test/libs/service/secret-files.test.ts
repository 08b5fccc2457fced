import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { pino } from "pino";
import { type Settings, secretSetting } from "#service/config.ts";
import { SecretFiles, withSecrets } from "#service/secret-files.ts";
import { StartupFault } from "#service/startup.ts";
import { controlSettings } from "../../../apps/control/config.ts";
import { ingressSettings } from "../../../apps/ingress/common/config.ts";
import { until } from "../../support/time.ts";

const directory = mkdtempSync(join(tmpdir(), "sluice-secrets-"));
after(() => rmSync(directory, { recursive: true, force: true }));
let files = 0;
function fileWith(content: string | Uint8Array): string {
  const file = join(directory, String(++files));
  writeFileSync(file, content);
  return file;
}

const settings = { token: secretSetting("TOKEN", "", { form: "digits", pattern: /^\d+$/, rotates: true }) };

function loggerTo(lines: Record<string, unknown>[]) {
  return pino({ level: "trace" }, { write: (line: string) => void lines.push(JSON.parse(line)) });
}

test("line breaks at the end of a file are not part of the secret, and everything else is", () => {
  for (const [content, value] of [
    ["secret", "secret"],
    ["secret\n", "secret"],
    ["secret\r\n", "secret"],
    ["secret\n\n", "secret"],
    [" secret ", " secret "],
    ["\nsecret\nof two lines\n", "\nsecret\nof two lines"],
    ["\ufeffsecret\n", "secret"],
    ["geheim-ü\n", "geheim-ü"],
  ] as const)
    assert.equal(withSecrets({ A_FILE: fileWith(content) }, "A").A, value, JSON.stringify(content));
  assert.deepEqual(withSecrets({ A: "set", A_FILE: "" }, "A"), { A: "set", A_FILE: "" });
  assert.equal(withSecrets({ A: "", A_FILE: fileWith("secret") }, "A").A, "secret");
});

test("at the start a file without a value is a fault that names the variable", () => {
  for (const [file, reason] of [
    [join(directory, "none"), "no such file"],
    [directory, "not a file"],
    ["/dev/zero", "not a file"],
    [fileWith(""), "empty"],
    [fileWith("\n"), "empty"],
    [fileWith("  \n"), "empty"],
    [fileWith(Buffer.from([0xff, 0xfe, 0x41])), "not UTF-8 text"],
    [fileWith("x".repeat(65_537)), "larger than 65536 bytes"],
  ] as const)
    assert.throws(() => withSecrets({ A_FILE: file }, "A"), new StartupFault(`A_FILE: ${file}: ${reason}`));
  assert.throws(
    () => withSecrets({ A: "one", A_FILE: fileWith("two") }, "A"),
    new StartupFault("A and A_FILE are both set; remove one of them"),
  );
});

test("every secret setting can be in a file, and no fault shows its value", () => {
  const secrets = Object.values<Settings[string]>({ ...controlSettings, ...ingressSettings }).filter(
    ({ secret }) => secret !== undefined,
  );
  assert.ok(secrets.length >= 7);
  for (const { variable, bounds, read } of secrets) {
    const short = "Sh \u00f6rt";
    const { environment } = new SecretFiles(
      { [`${variable}_FILE`]: fileWith(`${short}\n`) },
      controlSettings,
      ingressSettings,
    );
    assert.equal(environment[variable], short, variable);
    if (bounds === "a secret") read(environment);
    else
      assert.throws(() => read(environment), new StartupFault(`${variable} must be ${bounds}; its value is not shown`));
  }
});

test("secrets that operators make up have a least length", () => {
  for (const [setting, length] of [
    [controlSettings.operatorToken, 32],
    [controlSettings.authSecret, 32],
    [controlSettings.alertWebhookSecret, 24],
    [ingressSettings.operatorPassword, 16],
  ] as const) {
    const { variable } = setting;
    setting.read({ [variable]: "x".repeat(length) });
    assert.throws(() => setting.read({ [variable]: "x".repeat(length - 1) }), StartupFault, variable);
    setting.read({});
  }
});

test("a changed file is in force after a moment, also where a link leads elsewhere", async () => {
  const place = join(directory, "mount");
  for (const [version, value] of [
    ["v1", "1"],
    ["v2", "2"],
  ] as const) {
    mkdirSync(join(place, version), { recursive: true });
    writeFileSync(join(place, version, "token"), `${value}\n`);
  }
  symlinkSync("v1", join(place, "..data"));
  symlinkSync(join("..data", "token"), join(place, "token"));
  const lines: Record<string, unknown>[] = [];
  const secrets = new SecretFiles({ TOKEN_FILE: join(place, "token") }, settings);
  after(() => secrets.close());
  const { environment } = secrets;
  assert.deepEqual(environment, { TOKEN: "1" });
  secrets.followSettings(settings, loggerTo(lines));
  symlinkSync("v2", join(place, "..next"));
  renameSync(join(place, "..next"), join(place, "..data"));
  await until("the new value", () => environment.TOKEN === "2");
  assert.deepEqual(
    lines.map(({ msg, variable }) => [msg, variable]),
    [["a secret was read anew from its file", "TOKEN"]],
  );
});

test("a file without a usable value leaves the last one in force, and the log says so once", async () => {
  const file = fileWith("1");
  const lines: Record<string, unknown>[] = [];
  const secrets = new SecretFiles({ TOKEN_FILE: file }, settings);
  after(() => secrets.close());
  secrets.followSettings(settings, loggerTo(lines));
  const reasons: string[] = [];
  for (const [change, reason] of [
    [() => writeFileSync(file, ""), `${file}: empty`],
    [() => unlinkSync(file), `${file}: no such file`],
    [() => writeFileSync(file, "no digits"), `${file}: TOKEN must be digits; its value is not shown`],
  ] as const) {
    change();
    reasons.push(reason);
    await until(reason, () => lines.length >= reasons.length);
    assert.equal(secrets.environment.TOKEN, "1");
  }
  writeFileSync(file, "2\n");
  await until("the new value", () => secrets.environment.TOKEN === "2");
  assert.deepEqual(
    lines.slice(0, 3).map(({ reason }) => reason),
    reasons,
  );
  assert.deepEqual(
    lines.slice(3).map(({ msg }) => msg),
    ["the file of a secret has a value again", "a secret was read anew from its file"],
  );
  assert.ok(!JSON.stringify(lines).includes("no digits"));
});

test("variables that are no settings are followed while they are named", async () => {
  const [first, second] = [fileWith("1"), join(directory, "later")];
  const lines: Record<string, unknown>[] = [];
  const changed: string[] = [];
  const secrets = new SecretFiles({ A_FILE: first, B_FILE: second, C: "plain" });
  after(() => secrets.close());
  const follow = (...names: string[]) =>
    secrets.followOnly(new Set(names), loggerTo(lines), (variable) => changed.push(variable));
  follow("A", "B", "C");
  assert.deepEqual([secrets.environment.A, secrets.environment.B, secrets.environment.C], ["1", undefined, "plain"]);
  assert.deepEqual(
    lines.map(({ variable, reason }) => [variable, reason]),
    [["B", `${second}: no such file`]],
  );
  writeFileSync(second, "2");
  await until("a file that came later", () => secrets.environment.B === "2");
  assert.deepEqual(changed, ["B"]);
  follow("B", "C");
  assert.deepEqual([secrets.environment.A, secrets.environment.B, secrets.environment.C], [undefined, "2", "plain"]);
});
