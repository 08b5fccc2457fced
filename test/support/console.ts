/**
 * The console in a real browser: the gateway and control inside the test process, Chromium once for
 * each test file.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BrowserContextOptions, Page } from "playwright-core";
import { buildConsole } from "../../apps/console/build.ts";
import { atEnd } from "./at-end.ts";
import { launchBrowser } from "./browser.ts";
import type { TestControl } from "./control.ts";
import { type FilesGateway, startFilesGateway } from "./files.ts";
import type { Gateway, GatewayOptions } from "./gateway.ts";

export interface OpenOptions extends BrowserContextOptions {
  /** Signs an operator in first. Default: true. */
  isSignedIn?: boolean;
  /** Console errors that the test causes on purpose. */
  expected?: RegExp;
  /** The bound of each wait. */
  timeoutMs?: number;
}

/**
 * A page in a browser of its own cookies. Its disposal fails the test after an error of the page,
 * an error in the browser's console, or a request to a foreign host.
 */
export interface OpenPage extends AsyncDisposable {
  readonly page: Page;
}

export interface TestConsole extends AsyncDisposable {
  readonly gateway: Gateway;
  readonly control: TestControl;
  readonly addAccount: FilesGateway["addAccount"];
  /** Opens an address of the console, such as /models. */
  open(path: string, options?: OpenOptions): Promise<OpenPage>;
}

let building: Promise<string> | undefined;

/** The console's build, made once in this process. */
function builtConsole(): Promise<string> {
  building ??= (async () => {
    const directory = await mkdtemp(join(tmpdir(), "sluice-console-"));
    atEnd(() => rm(directory, { recursive: true, force: true }));
    await buildConsole(join(directory, "built"));
    return join(directory, "built");
  })();
  return building;
}

/** A console whose callers have files and batches. `environment` is for control alone. */
export async function startConsole(
  options: GatewayOptions = {},
  environment: Record<string, string> = {},
): Promise<TestConsole> {
  await using started = new AsyncDisposableStack();
  const control = builtConsole().then((directory) => ({ CONSOLE_DIRECTORY: directory, ...environment }));
  const files = started.use(await startFilesGateway({ ...options, withBatches: true, control }));
  const browser = await launchBrowser();
  started.defer(() => browser.close());
  const hosts = new Set([files.control.url, files.gateway.url].map((url) => new URL(url).host));
  const resources = started.move();

  return {
    gateway: files.gateway,
    control: files.control,
    addAccount: files.addAccount,
    async open(path, { isSignedIn = true, expected, timeoutMs = 30_000, ...contextOptions } = {}) {
      const context = await browser.newContext({ locale: "en-US", ...contextOptions });
      context.setDefaultTimeout(timeoutMs);
      const page = await context.newPage();
      const faults: string[] = [];
      page.on("pageerror", (error) => faults.push(`error of the page: ${error.stack}`));
      page.on("console", (message) => {
        const text = `${message.text()} ${message.location().url}`;
        // Without a session this is the answer.
        const isKnown = text.includes("401") && text.includes("/api/v1/me");
        if (message.type() === "error" && !isKnown && !expected?.test(text)) faults.push(`console: ${text}`);
      });
      page.on("request", (request) => {
        const { protocol, host } = new URL(request.url());
        if (protocol.startsWith("http") && !hosts.has(host)) faults.push(`request to a foreign host: ${request.url()}`);
      });
      if (isSignedIn) {
        const response = await files.control.call("POST", "/sign-in-links", {});
        const { url } = (await response.json()) as { url: string };
        await context.request.get(url);
      }
      await page.goto(`${files.control.url}${path}`);
      return {
        page,
        async [Symbol.asyncDispose]() {
          await context.close();
          if (faults.length > 0) throw new Error(faults.join("\n"));
        },
      };
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

/** Sends a message of the playground, as soon as it has loaded with whom the gateway is called. */
export async function sendMessage(page: Page, text: string): Promise<void> {
  await page.getByLabel("Message").fill(text);
  await page.getByRole("button", { name: "Send", exact: true }).and(page.locator(":enabled")).waitFor();
  await page.keyboard.press("Enter");
}

/** Fails with what axe finds serious or critical. */
export async function assertAccessible(page: Page): Promise<void> {
  const { AxeBuilder } = await import("@axe-core/playwright");
  const { violations } = await new AxeBuilder({ page }).analyze();
  const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  if (grave.length > 0)
    throw new Error(
      grave.map(({ id, help, nodes }) => `${id}: ${help}\n${nodes.map(({ html }) => html).join("\n")}`).join("\n"),
    );
}
