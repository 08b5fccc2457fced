import { chromium } from "/work/wt-console/node_modules/playwright-core/index.mjs";
import AxeBuilder from "/work/wt-console/node_modules/@axe-core/playwright/dist/index.mjs";
const pages = process.argv.slice(2);
const b = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const c = await b.newContext({ viewport: { width: 1200, height: 800 }, colorScheme: process.env.DARK ? "dark" : "light", ...(process.env.PHONE && { viewport: { width: 390, height: 800 } }), ...(process.env.ZH && { locale: "zh-CN" }) });
const p = await c.newPage();
p.on("console", (m) => console.log("console", m.type(), m.text().slice(0, 300)));
p.on("pageerror", (e) => console.log("pageerror", String(e).slice(0, 400)));
await p.goto(process.env.L); await p.waitForTimeout(500);
for (const path of pages) {
  await p.goto(new URL(path, p.url()).href); await p.waitForTimeout(2500);
  await p.screenshot({ path: `/tmp/shot${path.replaceAll("/", "-")}.png`, fullPage: true });
  const { violations } = await new AxeBuilder({ page: p }).analyze();
  for (const v of violations) console.log(path, v.impact, v.id, v.nodes.slice(0, 2).map((n) => n.html.slice(0, 160)).join(" | "));
}
await b.close();
