/**
 * Generates docs/vendors.md, which quotes the examples of docs/examples. `npm run reference` writes
 * it.
 */
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const directory = join(import.meta.dirname, "examples");
export const vendorsFile = join(import.meta.dirname, "vendors.md");

/** The files of the examples. */
export const exampleFiles = (): string[] =>
  globSync("*.yaml", { cwd: directory })
    .sort()
    .map((name) => join(directory, name));

/** The first line of an example is its title. */
export function vendorsPageOf(): string {
  const sections = exampleFiles().map((file) => {
    const [title = "", ...lines] = readFileSync(file, "utf8").trimEnd().split("\n");
    return `## ${title.slice(2)}\n\n\`\`\`yaml\n${lines.join("\n")}\n\`\`\`\n`;
  });
  return `# Vendors

An example of a catalogue for each vendor: copy the upstream and the models into yours. The files are in [docs/examples](examples), and a test loads each of them. Prices are list prices in USD of 27 November 2026, from the vendors' pages and
LiteLLM's price list (release 1.110.2); the vendor's own page is what counts. Servers of your own cost nothing there. \`requires\` offers an upstream only where its variable is set.

${sections.join("\n")}`;
}

if (import.meta.main) writeFileSync(vendorsFile, vendorsPageOf());
