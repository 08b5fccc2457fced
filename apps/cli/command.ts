/** The output, the faults and the tables that all commands share. */

import { ApiFault } from "#api/request.ts";
import { CatalogueFault } from "#catalogue/fault.ts";
import { StartupFault } from "#service/startup.ts";

/** A command that cannot be executed; the message is one line. */
export class CommandFault extends Error {}

/** The places of a command's result and of its errors. */
export interface Output {
  out(text: string): void;
  err(text: string): void;
}

export const standardOutput: Output = {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
};

/**
 * The line that says what is wrong, and the exit code: 1 for a failed command, 2 for invalid
 * arguments. Undefined for an error that no command expects.
 */
export function failureOf(error: unknown): { line: string; exitCode: 1 | 2 } | undefined {
  const { message, code } = error as NodeJS.ErrnoException;
  const line = String(message).split("\n", 1)[0] as string;
  if (String(code).startsWith("ERR_PARSE_ARGS")) return { line, exitCode: 2 };
  const isFault = [CommandFault, StartupFault, CatalogueFault, ApiFault].some((Fault) => error instanceof Fault);
  return isFault ? { line, exitCode: 1 } : undefined;
}

/** Says why a command failed; returns its exit code. Throws an error that no command expects. */
export function exitCodeOf(command: string, error: unknown, { err }: Pick<Output, "err">): number {
  const failure = failureOf(error);
  if (failure === undefined) throw error;
  err(`${command}: ${failure.line}\n`);
  return failure.exitCode;
}

/**
 * Joins a negative number to the option before it: `parseArgs` takes it for an option, and cannot
 * say what the option's value may be.
 */
export const withNegativeNumbers = (args: readonly string[]): string[] =>
  args.flatMap((arg, index) => {
    const [before, after] = [args[index - 1], args[index + 1]];
    if (isNegative(arg) && isOption(before)) return [];
    return isOption(arg) && isNegative(after) ? [`${arg}=${after}`] : [arg];
  });

const isNegative = (arg: string | undefined) => /^-[\d.]/.test(arg ?? "");
const isOption = (arg: string | undefined) => /^--[^=]+$/.test(arg ?? "");

/** The characters that a text takes in a terminal, which may be other than its code units. */
const widthOf = (text: string) => [...text].length;

/** Rows whose cells stand below each other, two spaces apart. */
export function alignedRows(rows: readonly (readonly string[])[], isNumber: (column: number) => boolean = () => false) {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => widthOf(row[column] ?? ""))));
  return rows.map((row) =>
    row.map((cell, column) => {
      const space = " ".repeat((widths[column] ?? 0) - widthOf(cell));
      return isNumber(column) ? space + cell : cell + space;
    }),
  );
}

/** A line for each row. */
export const tableOf = (rows: readonly (readonly string[])[]): string =>
  alignedRows(rows)
    .map((row) => `${row.join("  ").trimEnd()}\n`)
    .join("");

export const jsonOf = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;

/** A time of the API to the minute; nothing for none. */
export const shortTime = (time: string | null): string => time?.slice(0, 16).replace("T", " ") ?? "";

export const wantsHelp = (args: readonly (string | undefined)[]) => args.includes("--help") || args.includes("-h");
