/** The pages that call the gateway: start, models and playground, in a browser. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Page } from "playwright-core";
import { assertAccessible, sendMessage, startConsole } from "../support/console.ts";
import { catalogueOf } from "../support/gateway.ts";

const imageModel = (id: string, prices: string) =>
  `  - { id: ${id}, queue: image, capabilities: [image], prices: { inputPerMillion: 0, outputPerMillion: 0, ${prices} }, route: [{ upstream: simulator, model: sim-image }] }\n`;
const catalogue = catalogueOf([
  { id: "sim-text", model: "sim-text;rate=0;first=0" },
  { id: "sim-slow", model: "sim-text;tokens=400;rate=40;first=0" },
  { id: "sim-broken", model: "sim-text;rate=0;error=3" },
])
  .replace("groups:\n", "publicGroup: narrow\ngroups:\n")
  .replace("dialect: openai-chat,", "dialect: openai-chat, alsoSpeaks: [openai-images],")
  .concat(
    imageModel("sim-image", "images: [{ price: 0.04 }]"),
    imageModel(
      "sim-sizes",
      "images: [{ size: 1024x1024, price: 0.04 }, { size: 1536x1024, quality: high, price: 0.25 }, { price: 0.08 }]",
    ),
  );
const sluice = await startConsole({ catalogue });
after(() => sluice[Symbol.asyncDispose]());

const choose = async (page: Page, field: string, option: string) => {
  await page.getByRole("combobox", { name: field, exact: true }).click();
  await page.getByRole("option", { name: option, exact: true }).click();
};
const figure = (page: Page, name: string) => page.locator("dl > div", { hasText: name }).locator("dd").first();
const cost = /^\$0\.0\d*[1-9]\d*$/;
const matches = async (page: Page, name: string, pattern: RegExp) => {
  await figure(page, name).filter({ hasText: pattern }).waitFor();
};
const consoleKeys = async () => {
  const { items } = await sluice.control.get<{ items: { name: string; state: string }[] }>("/keys?limit=500");
  return items.filter(({ name }) => name.startsWith("Console of")).map(({ state }) => state);
};

test("start calls a model with every dialect of its clients, and shows what it cost", async () => {
  await using opened = await sluice.open("/?model=sim-slow");
  const { page } = opened;
  await page.getByText("Set a password, or this link was your only way in").waitFor();
  await choose(page, "Model", "sim-text");
  for (const client of ["curl", "Codex", "Claude Code", "Gemini CLI"]) {
    await choose(page, "Client", client);
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.getByText("You said: Hello! Who are you?").waitFor();
    await matches(page, "Cost", cost);
    await matches(page, "First token", /ms$/);
  }
  await assertAccessible(page);
  const address = new URL(page.url());
  assert.deepEqual([address.searchParams.get("model"), address.searchParams.get("client")], ["sim-text", "gemini-cli"]);
});

test("a key made on the start page is filled in until the page is left", async () => {
  await using opened = await sluice.open("/?client=curl");
  const { page } = opened;
  await page.getByText("YOUR_KEY").first().waitFor();
  await page.getByRole("button", { name: "Create a key" }).click();
  await page.getByLabel("Name").fill("mine");
  await page.getByRole("button", { name: "Create key" }).click();
  const code = page.getByRole("dialog").locator("code");
  const key = (await code.textContent()) ?? "";
  assert.match(key, /^sk-sluice-/);
  await page.getByRole("button", { name: "I have stored it" }).click();
  await page
    .locator("pre, code")
    .filter({ hasText: `Bearer ${key}` })
    .first()
    .waitFor();
  await page.reload();
  await page.getByText("YOUR_KEY").first().waitFor();
  assert.equal(await page.getByText(key).count(), 0);
});

test("a reload keeps the tab's key, and signing out revokes it", async () => {
  await using opened = await sluice.open("/playground?model=sim-text");
  const { page } = opened;
  const ask = async () => {
    await sendMessage(page, "hello");
    await page.getByText("You said: hello").waitFor();
  };
  const before = await consoleKeys();
  await ask();
  await page.reload();
  await ask();
  const after = await consoleKeys();
  assert.equal(after.length, before.length + 1);
  await page.getByRole("button", { name: /^Operator/ }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  const revoked = (states: string[]) => states.filter((state) => state === "revoked").length;
  assert.equal(revoked(await consoleKeys()), revoked(after) + 1);
});

test("the playground streams in every dialect, calls tools and shows requests and events", async () => {
  for (const dialect of ["openai-chat", "openai-responses", "anthropic-messages", "gemini"]) {
    await using opened = await sluice.open(`/playground?model=sim-text&dialect=${dialect}`);
    const { page } = opened;
    await page.getByRole("button", { name: "Insert an example" }).first().click();
    await choose(page, "Reasoning effort", "low");
    await sendMessage(page, 'Call get_weather for "Paris".');
    await page.getByLabel("Result of get_weather").fill("sunny, 21 degrees");
    await page.getByRole("button", { name: "Send results" }).click();
    await page
      .getByText(/returned.*sunny, 21 degrees/s)
      .first()
      .waitFor();
    await matches(page, "Cost", cost);
    await page.getByRole("tab", { name: "Events" }).click();
    await page.locator("pre", { hasText: "data: {" }).waitFor();
    await page.getByRole("tab", { name: "Request" }).click();
    const request = page.locator("pre", { hasText: "POST" });
    assert.match((await request.textContent()) ?? "", /^POST \/v1(beta)?\/[\s\S]*get_weather/);
    assert.doesNotMatch((await page.content()) ?? "", /sk-sluice-/);
    await page.getByText("Python", { exact: true }).click();
    await page.getByText(/api_key="YOUR_KEY"/).waitFor();
  }
});

test("two models answer side by side with one key, and an answer can be stopped", async () => {
  const keysBefore = await consoleKeys();
  await using opened = await sluice.open("/playground?model=sim-text&second=sim-slow");
  const { page } = opened;
  await sendMessage(page, "hello there");
  await page.getByText("You said: hello there").nth(1).waitFor();
  assert.equal((await consoleKeys()).length, keysBefore.length + 1);
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByText("Stopped.").waitFor();
  await assertAccessible(page);
  await page.getByRole("button", { name: "New chat" }).click();
  assert.equal(await page.getByText("You said").count(), 0);
});

test("errors have the gateway's words and the id of the request", async () => {
  // A chat stream's connection breaks after its error event.
  await using opened = await sluice.open("/playground?model=sim-broken", {
    expected: /ERR_INCOMPLETE_CHUNKED_ENCODING/,
  });
  const { page } = opened;
  await sendMessage(page, "hello there, a longer text");
  const alert = page.getByRole("alert");
  await alert.getByText(/upstream/).waitFor();
  assert.match((await alert.textContent()) ?? "", /req_/);
  await page.getByRole("button", { name: "Send again" }).waitFor();
  // The ledger has it, so the list of models says it as well.
  await matches(page, "Cost", /\$/);
  await page.goto(`${sluice.control.url}/models?search=broken`);
  await page.getByText("Many errors · 100% failed").waitFor();
});

test("images are generated, with their price and cost", async () => {
  await using opened = await sluice.open("/playground?model=sim-image");
  const { page } = opened;
  await page.getByLabel("Prompt").fill("A cat");
  await page.getByRole("button", { name: "Generate" }).click();
  await page.getByAltText("Generated image 1").waitFor();
  await matches(page, "Price per image", /^\$0\.04$/);
  await matches(page, "Cost", /^\$0\.04$/);
});

test("prices of images agree in the playground, on the pages of models and in the catalogue", async () => {
  await using opened = await sluice.open("/playground?model=sim-sizes");
  const { page } = opened;
  const size = page.getByRole("combobox", { name: "Size" });
  const quality = page.getByRole("combobox", { name: "Quality" });
  for (const [chosenSize, chosenQuality, price] of [
    ["", "", /^from \$0\.04$/],
    ["auto", "low", /^from \$0\.04$/],
    ["1024x1024", "", /^\$0\.04$/],
    ["1536x1024", "", /^from \$0\.08$/],
    ["1536x1024", "high", /^\$0\.25$/],
    ["512x512", "high", /^\$0\.08$/],
  ] as const) {
    await size.fill(chosenSize);
    await quality.fill(chosenQuality);
    await matches(page, "Price per image", price);
  }
  const row = (name: string) => page.getByRole("row", { name: new RegExp(`${name} `) });
  for (const path of ["/models", "/catalogue"]) {
    await page.goto(`${sluice.control.url}${path}`);
    await row("sim-image").getByText("$0.04 / image", { exact: true }).waitFor();
    await row("sim-sizes").getByText("from $0.04 / image", { exact: true }).waitFor();
  }
  await page.goto(`${sluice.control.url}/models/sim-sizes`);
  await page.getByRole("row", { name: "Per image: 1536x1024, high $0.25" }).waitFor();
  await page.getByRole("row", { name: "Released –" }).waitFor();
});

test("models are found, compared, and have a page with prices, code and usage", async () => {
  for (const colorScheme of ["light", "dark"] as const) {
    await using opened = await sluice.open("/models", { colorScheme });
    const { page } = opened;
    await page.getByLabel("Search models").fill("sim-");
    for (const id of ["sim-text", "sim-slow"]) await page.getByRole("checkbox", { name: `Compare ${id}` }).check();
    await assertAccessible(page);
    await page.getByRole("button", { name: "Compare 2" }).click();
    const table = page.getByRole("table", { name: "Comparison" });
    await table.waitFor();
    assert.equal(await table.getByRole("columnheader").count(), 2);
    await page.goBack();
    await page.getByRole("link", { name: "sim-text" }).click();
    await page.getByText("Usage of the last 30 days").waitFor();
    await page.getByRole("region", { name: "Prices" }).getByText("$1.00").first().waitFor();
    await page.getByText("pip install openai").waitFor();
    await assertAccessible(page);
  }
});

test("without sign-in the models of the public group are open, and nothing else", async () => {
  await using opened = await sluice.open("/models", { isSignedIn: false, viewport: { width: 390, height: 800 } });
  const { page } = opened;
  await page.getByRole("link", { name: "sim-text" }).click();
  await page.getByRole("heading", { name: "Prices" }).waitFor();
  assert.equal(await page.getByText("Usage of the last 30 days").count(), 0);
  await page.goto(`${sluice.control.url}/models/sim-slow`);
  await page.getByText("Nothing is here").waitFor();
  await page.getByRole("button", { name: "Menu" }).click();
  assert.deepEqual(await page.getByRole("navigation").getByRole("link").allTextContents(), ["Models", "Sign in"]);
  await page.getByRole("link", { name: "Sign in" }).click();
  await page.waitForURL(/\/sign-in\?to=%2Fmodels/);
  for (const path of ["/", "/keys", "/playground"]) {
    await page.goto(`${sluice.control.url}${path}`);
    await page.waitForURL(/\/sign-in/);
  }
});

test("a reader sees models and figures, and why nothing can be called", async () => {
  const invited = await sluice.control.call("POST", "/accounts/default/invitations", { role: "reader" });
  const { url } = (await invited.json()) as { url: string };
  const password = "correct horse battery";
  const email = "reader@example.com";
  const token = new URL(url).hash.replace("#token=", "");
  await using opened = await sluice.open("/playground", { isSignedIn: false });
  const { page } = opened;
  const accepted = await page.request.post(`${sluice.control.url}/api/v1/invitations/accept`, {
    data: { token, name: "Ada", email, password },
    headers: { origin: sluice.control.url },
  });
  assert.ok(accepted.ok(), await accepted.text());
  await page.getByLabel("E-mail").fill(email);
  await page.getByRole("textbox", { name: "Password" }).fill(password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByText("Your role may read").waitFor();
  await page.getByLabel("Message").fill("hello");
  assert.ok(await page.getByRole("button", { name: "Send", exact: true }).isDisabled());
  await page.goto(sluice.control.url);
  await page.getByText("Your role may read").waitFor();
  for (const name of ["Create a key", "Run"]) assert.equal(await page.getByRole("button", { name }).count(), 0);
});

test("only the groups of the account are offered", async () => {
  const created = await sluice.control.call("POST", "/accounts", { id: "tight", name: "Tight", groups: ["narrow"] });
  assert.ok(created.ok, await created.text());
  await using opened = await sluice.open("/models");
  const { page } = opened;
  const opening = Promise.withResolvers<void>();
  await page.route("**/accounts/tight", async (route) => {
    await opening.promise;
    await route.continue();
  });
  await page.goto(`${sluice.control.url}/playground?model=sim-text&account=tight`);
  const account = page.getByRole("combobox", { name: "Account" });
  await account.and(page.locator('[value*="Tight"]')).waitFor();
  await page.getByLabel("Message").fill("too early");
  assert.ok(await page.getByRole("button", { name: "Send", exact: true }).isDisabled());
  opening.resolve();
  await page.getByRole("combobox", { name: "Group" }).waitFor({ state: "detached" });
  await sendMessage(page, "hello");
  await page.getByText("You said: hello").waitFor();
});
