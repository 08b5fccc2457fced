/**
 * Operations on the catalogue's file, for operators: the one in force, and the effect of a change
 * before it is saved.
 */
import Type from "typebox";
import { fileBytesMax } from "#catalogue/document.ts";
import { flag, integer, listOf, object, oneOf, orNull, strictObject, text, time } from "./common.ts";
import type { Operation } from "./operation.ts";

const names = (description: string) => Type.Array(text(), { description });
const changed = (what: string) =>
  object({ added: names(`New ${what}.`), removed: names(`${what} that are gone.`), changed: names("") });

export const changes = object({
  models: changed("models"),
  groups: changed("groups"),
  upstreams: changed("upstreams"),
  queues: changed("queues"),
});

export const diff = orNull(
  object(
    {
      lines: listOf(
        object({
          kind: oneOf(["same", "added", "removed"]),
          before: orNull(integer("The number of the line in the former text.")),
          after: orNull(integer("The number of the line in the new text.")),
          text: text(),
        }),
      ),
      isCut: flag("Whether further changes are not in `lines`."),
    },
    "Changed lines, each with up to three lines around it. Null if the former text is not known.",
  ),
);

const fault = orNull(text("What is wrong, as `file:line:column: place: mistake`; null for a valid catalogue."));

/** As JSON, with each character that is not ASCII as an escape. */
export const catalogueBodyBytesMax = 3 * fileBytesMax;
export const catalogueText = (description: string) => Type.String({ maxLength: fileBytesMax, description });

export const catalogueFileOperations = {
  readCatalogueFile: {
    method: "GET",
    path: "/catalogue/file",
    summary: "Shows the catalogue's file, why it is not in force if it is not, and what its last change changed.",
    access: "operator",
    answer: object({
      file: text("Its path at this control process."),
      text: text("Its content now."),
      version: text("Of the catalogue in force."),
      fault,
      lastChange: orNull(
        object(
          { at: time("When it came into force."), changes, diff },
          "Since this control process has started; null without one.",
        ),
      ),
    }),
  },
  checkCatalogue: {
    method: "POST",
    path: "/catalogue/check",
    summary: "Checks a catalogue that is not saved yet, and tells what it would change. It changes nothing.",
    access: "operator",
    body: strictObject({ text: catalogueText("The whole file.") }),
    bodyBytesMax: catalogueBodyBytesMax,
    answer: object({
      fault,
      changes: orNull(changes),
      diff,
      affected: listOf(
        object({
          group: text(),
          isRemoved: flag("The keys of a removed group are refused."),
          modelsLost: names("Models that keys of the group could no longer use."),
          keys: integer("Keys of the group that are not revoked."),
        }),
        "Groups with keys that would lose something.",
      ),
    }),
  },
} as const satisfies Record<string, Operation>;
