/**
 * Commands of ioredis that V8 frees soon after their answers.
 *
 * ioredis assigns a function literal to each command's `reject`. V8 allocates a function literal
 * that is assigned to a property in the old generation
 * (https://chromium.googlesource.com/v8/v8/+/main/src/parsing/parser.h, the function
 * `CheckAssigningFunctionLiteralToProperty`). There it keeps the command, its arguments and all
 * that waited for the answer until the next full collection, and each minor collection copies them.
 * Here a call returns the function, which is young.
 */
import { Command } from "ioredis";

type PublicParts =
  | "name"
  | "args"
  | "isResolved"
  | "isSettled"
  | "promise"
  | "resolve"
  | "reject"
  | "stringifyArguments";

/** With what ioredis declares as private. */
interface Opened extends Pick<Command, PublicParts> {
  readonly callback: unknown;
  readonly errorStack: unknown;
  transformed: boolean;
  initPromise(): void;
  _convertValue(resolve: (value: unknown) => void): (reply: unknown) => void;
  _clearTimers(): void;
}
type Transformer = (values: Command["args"]) => Command["args"];

const prototype = Command.prototype as unknown as Opened;
const { argument: transformers } = (
  Command as unknown as { _transformer: { argument: Record<string, Transformer | undefined> } }
)._transformer;
const ofIoredis = prototype.initPromise;

prototype.initPromise = function (this: Opened): void {
  if (this.callback !== undefined || this.errorStack !== undefined) {
    ofIoredis.call(this);
    return;
  }
  this.isResolved = false;
  this.isSettled = false;
  this.promise = new Promise((resolve, reject) => {
    if (!this.transformed) {
      this.transformed = true;
      const transform = transformers[this.name];
      if (transform !== undefined) this.args = transform(this.args);
      this.stringifyArguments();
    }
    this.resolve = this._convertValue(resolve);
    this.reject = rejection(this, reject);
  });
};

const rejection = (command: Opened, reject: (error: Error) => void) => (error: Error) => {
  command._clearTimers();
  command.isSettled = true;
  reject(error);
};
