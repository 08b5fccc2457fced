/** Asks for the reason of what an operator is about to do, and says what it will do. */
import { Alert, Text } from "@mantine/core";
import { FormDialog } from "../parts/dialogs.tsx";
import { SelectField, TextField } from "../parts/form.tsx";
import { useReasonDialogTexts } from "./reason-dialog.texts.ts";

const reasonLengthMax = 100;

export interface ReasonDialogProps {
  title: string;
  submit: string;
  /** Says what will happen. */
  consequence: string;
  /** For what takes something away from callers. */
  isDestructive?: boolean;
  /** The choices of when it ends by itself, in minutes; null stands for never. */
  ends?: readonly (number | null)[];
  /** `minutes` is the choice of when it ends. */
  onSubmit(reason: string, minutes: number | null): Promise<unknown>;
}

export function ReasonDialog({ ends, consequence, isDestructive = false, onSubmit, ...form }: ReasonDialogProps) {
  const t = useReasonDialogTexts();
  const textOf = (minutes: number | null) =>
    minutes === null ? t.open : minutes < 60 ? t.minutes(minutes) : t.hours(minutes / 60);
  return (
    <FormDialog
      {...form}
      color={isDestructive ? "red.9" : undefined}
      initialValues={{ reason: "", ends: String(ends?.[0] ?? null) }}
      onSubmit={({ reason, ends: end }) => onSubmit(reason, end === "null" ? null : Number(end))}
    >
      {isDestructive ? (
        <Alert color="red" p="xs">
          {consequence}
        </Alert>
      ) : (
        <Text>{consequence}</Text>
      )}
      <TextField
        name="reason"
        label={t.reason}
        description={t.reasonHelp}
        required
        maxLength={reasonLengthMax}
        data-autofocus
      />
      {ends !== undefined && (
        <SelectField
          name="ends"
          label={t.ends}
          data={ends.map((minutes) => ({ value: String(minutes), label: textOf(minutes) }))}
          allowDeselect={false}
        />
      )}
    </FormDialog>
  );
}
