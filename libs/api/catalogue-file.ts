/**
 * Operations on the catalogue's file, for operators: the one in force, and the effect of a change
 * before it is saved.
 */
import Type from "typebox";
import { orNull, strict, time } from "./common.ts";
import type { Operation } from "./operation.ts";

const names = (description: string) => Type.Array(Type.String(), { description });
const changed = (what: string) =>
  Type.Object({ added: names(`New ${what}.`), removed: names(`${what} that are gone.`), changed: names("") });

const changes = Type.Object({
  models: changed("models"),
  groups: changed("groups"),
  upstreams: changed("upstreams"),
  queues: changed("queues"),
});

const diff = orNull(
  Type.Object(
    {
      lines: Type.Array(
        Type.Object({
          kind: Type.Enum(["same", "added", "removed"] as const),
          before: orNull(Type.Integer({ description: "The number of the line in the former text." })),
          after: orNull(Type.Integer({ description: "The number of the line in the new text." })),
          text: Type.String(),
        }),
      ),
      isCut: Type.Boolean({ description: "Whether further changes are not in `lines`." }),
    },
    { description: "Changed lines, each with up to three lines around it. Null if the former text is not known." },
  ),
);

const fault = orNull(
  Type.String({ description: "What is wrong, as `file:line:column: place: mistake`; null for a valid catalogue." }),
);

const catalogueTextMax = 900_000;

export const catalogueFileOperations = {
  readCatalogueFile: {
    method: "GET",
    path: "/catalogue/file",
    summary: "Shows the catalogue's file, why it is not in force if it is not, and what its last change changed.",
    access: "operator",
    answer: Type.Object({
      file: Type.String({ description: "Its path at this control process." }),
      text: Type.String({ description: "Its content now." }),
      version: Type.String({ description: "Of the catalogue in force." }),
      fault,
      lastChange: orNull(
        Type.Object(
          { at: time("When it came into force."), changes, diff },
          { description: "Since this control process has started; null without one." },
        ),
      ),
    }),
  },
  checkCatalogue: {
    method: "POST",
    path: "/catalogue/check",
    summary: "Checks a catalogue that is not saved yet, and tells what it would change. It changes nothing.",
    access: "operator",
    body: Type.Object({ text: Type.String({ maxLength: catalogueTextMax, description: "The whole file." }) }, strict),
    answer: Type.Object({
      fault,
      changes: orNull(changes),
      diff,
      affected: Type.Array(
        Type.Object({
          group: Type.String(),
          isRemoved: Type.Boolean({ description: "The keys of a removed group are refused." }),
          modelsLost: names("Models that keys of the group could no longer use."),
          keys: Type.Integer({ description: "Keys of the group that are not revoked." }),
        }),
        { description: "Groups with keys that would lose something." },
      ),
    }),
  },
} as const satisfies Record<string, Operation>;
