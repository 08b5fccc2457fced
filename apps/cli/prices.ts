/** `sluice prices check`: compares the catalogue's prices with vendors' list prices. */
import { parseArgs } from "node:util";
import type { Environment } from "#catalogue/environment.ts";
import { CatalogueFault } from "#catalogue/fault.ts";
import { type CheckedPrices, checkPrices, type ListPrices, readListPrices } from "#catalogue/list-prices.ts";
import { loadCatalogueFile } from "#catalogue/load.ts";
import { serviceConfigOf } from "#service/config.ts";
import { exitCodeOf, type Output, standardOutput, tableOf, wantsHelp } from "./command.ts";

const usage = `Usage:
  sluice prices check [--json]    compares the prices of the catalogue with the list prices of known models

The exit code is 1 if a price differs. What callers pay is compared, or what the operator pays at a target that has prices of its own.
`;

/**
 * Returns the exit code: 0 without a difference, 1 with one or for an unusable catalogue, 2 for
 * invalid arguments. Never throws.
 */
export function pricesCommand(args: string[], environment: Environment, output: Output = standardOutput): number {
  if (wantsHelp(args)) {
    output.out(usage);
    return 0;
  }
  try {
    const { values, positionals } = parseArgs({ args, allowPositionals: true, options: { json: { type: "boolean" } } });
    if (positionals.join(" ") !== "check") {
      output.err(usage);
      return 2;
    }
    return check(environment, values.json === true, output);
  } catch (error) {
    return exitCodeOf("sluice prices", error, output);
  }
}

function check(environment: Environment, isJson: boolean, output: Output): number {
  const list = readListPrices();
  const file = loadCatalogueFile(serviceConfigOf(environment).catalogueFile, environment);
  if (file.currency !== list.currency)
    throw new CatalogueFault(`the list prices are in ${list.currency}, those of the catalogue in ${file.currency}`);
  const checked = checkPrices(file, list, environment);
  output.out(
    isJson ? `${JSON.stringify({ date: list.date, currency: list.currency, checked })}\n` : textOf(checked, list),
  );
  return checked.some(({ state }) => state === "different") ? 1 : 0;
}

function textOf(checked: readonly CheckedPrices[], { date, currency }: ListPrices): string {
  const of = (state: CheckedPrices["state"]) => checked.filter((each) => each.state === state);
  const rows = of("different").flatMap(({ model, upstream, target, differences }) =>
    differences.map(({ price, aboveInputTokens, catalogue, list, difference }) => [
      model,
      `${upstream}: ${target}`,
      aboveInputTokens === 0 ? price : `${price} above ${aboveInputTokens} tokens`,
      catalogue,
      list,
      difference,
    ]),
  );
  const unknown = [...new Set(of("unknown").map(({ model }) => model))];
  return [
    `List prices of ${date}, in ${currency}. Equal: ${of("equal").length}, different: ${of("different").length}, unknown: ${of("unknown").length}.`,
    ...(rows.length === 0
      ? []
      : ["", tableOf([["MODEL", "TARGET", "PRICE", "CATALOGUE", "LIST", ""], ...rows]).trimEnd()]),
    ...(unknown.length === 0 ? [] : ["", `Unknown, because they have no list price: ${unknown.join(", ")}`]),
    "",
  ].join("\n");
}
