/**
 * A real browser for tests: headless Chromium, of which each test gets its own page.
 * playwright-core downloads no browser of its own.
 */
import { after, type TestContext } from "node:test";
import { type Browser, type BrowserContextOptions, chromium as engine, type Page } from "playwright-core";
import { chromium, programFor } from "../../apps/cli/test-programs.ts";

/** Without a sandbox, because tests may run as root, and without requests of the browser's own. */
const args = [
  "--no-sandbox",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--no-first-run",
  "--disable-quic",
];

export const launchBrowser = (): Promise<Browser> => engine.launch({ executablePath: programFor(chromium), args });

export interface TestBrowser {
  /** A page with cookies and storage of its own, until the test ends. */
  newPage(t: TestContext, options?: BrowserContextOptions): Promise<Page>;
}

/** One browser for the tests of a file. It ends after them. Call it at the top of the file. */
export async function startBrowser(): Promise<TestBrowser> {
  const browser = await launchBrowser();
  after(() => browser.close());
  return {
    async newPage(t, options) {
      const context = await browser.newContext(options);
      t.after(() => context.close());
      return context.newPage();
    },
  };
}
