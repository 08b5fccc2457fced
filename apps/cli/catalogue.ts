/** `sluice catalogue check`: checks a catalogue file without a gateway. */
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { checkedCatalogue } from "#catalogue/check.ts";
import { credentialNamesOf, defaultsIn, type Environment } from "#catalogue/environment.ts";
import { CatalogueFault } from "#catalogue/fault.ts";
import type { CatalogueFile } from "#catalogue/schema.ts";
import { fileVariableOf, isConfigured } from "#service/secret-files.ts";
import { exitCodeOf, type Output, standardOutput, tableOf, wantsHelp } from "./command.ts";

const usage = `Usage:
  sluice catalogue check [file]    names every mistake in the file with its line, and the variables that it needs

Without a file it is that of SLUICE_CATALOGUE, or catalogue.yaml. It needs no gateway, and no variable has to be set. The exit code is 1 for a file with a mistake.
`;

const linesMax = 200;

/**
 * Returns the exit code: 0 for a good file, 1 for one with mistakes, 2 for invalid arguments. A
 * relative file starts at `directory`. Never throws.
 */
export function catalogueCommand(
  args: string[],
  environment: Environment,
  directory: string,
  output: Output = standardOutput,
): number {
  if (wantsHelp(args)) {
    output.out(usage);
    return 0;
  }
  try {
    const { positionals } = parseArgs({ args, allowPositionals: true, options: {} });
    const [command, name, ...rest] = positionals;
    if (command !== "check" || rest.length > 0) {
      output.err(usage);
      return 2;
    }
    const file = name === undefined ? environment.SLUICE_CATALOGUE || "catalogue.yaml" : resolve(directory, name);
    output.out(summaryOf(file, checkedCatalogue(file, environment), environment));
    return 0;
  } catch (error) {
    if (error instanceof CatalogueFault) {
      const more = error.lines.length - linesMax;
      output.err([...error.lines.slice(0, linesMax), ...(more > 0 ? [`… and ${more} more`] : []), ""].join("\n"));
      return 1;
    }
    return exitCodeOf("sluice catalogue", error, output);
  }
}

function summaryOf(file: string, { models, upstreams, groups }: CatalogueFile, environment: Environment): string {
  const rows = Object.entries(upstreams).flatMap(([upstream, settings]) => {
    const { requires, baseUrl } = settings;
    const rowOf = (variable: string, isSecret: boolean, effect: string) => {
      const isSet = isSecret ? isConfigured(variable, environment) : Boolean(environment[variable]);
      return [variable, upstream, isSet ? "set" : "not set", effect];
    };
    return [
      ...(requires === undefined ? [] : [rowOf(requires, true, "the upstream is not offered")]),
      ...credentialNamesOf(settings)
        .filter((variable) => variable !== requires)
        .map((variable) => rowOf(variable, true, "it is called without this credential")),
      ...[...defaultsIn(baseUrl)]
        .filter(([variable]) => variable !== requires)
        .map(([variable, fallback]) =>
          rowOf(variable, false, fallback === undefined ? "the catalogue is refused" : `its default is ${fallback}`),
        ),
    ];
  });
  const heads = ["VARIABLE", "UPSTREAM", "HERE", "WITHOUT IT"];
  return [
    `${file} is valid: ${models.length} models, ${Object.keys(upstreams).length} upstreams, ${Object.keys(groups).length} groups.`,
    ...(rows.length === 0 ? [] : ["", tableOf([heads, ...rows]).trimEnd()]),
    "",
    ...(rows.length === 0 ? [] : [`A secret may be in a file that ${fileVariableOf("<VARIABLE>")} names.`, ""]),
  ].join("\n");
}
