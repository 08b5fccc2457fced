/** Asks for the reason of what an operator is about to do, and says what it will do. */
import { Alert, Select, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { ApiFault } from "../app/call.ts";
import { translated, useTexts } from "../app/language.tsx";
import { FormDialog } from "../parts/dialogs.tsx";

const texts = translated({
  en: {
    reason: "Reason",
    reasonHelp: "Callers see it in the error.",
    ends: "Ends",
    open: "When it is ended here",
    minutes: (count: number) => `In ${count} minutes`,
    hours: (count: number) => (count === 1 ? "In an hour" : `In ${count} hours`),
  },
  zh: {
    reason: "原因",
    reasonHelp: "调用方会在错误中看到。",
    ends: "结束时间",
    open: "在此处手动结束",
    minutes: (count: number) => `${count} 分钟后`,
    hours: (count: number) => `${count} 小时后`,
  },
});

const reasonLengthMax = 100;

export interface ReasonDialogProps {
  title: string;
  submit: string;
  /** What will happen. */
  consequence: string;
  /** For what takes something away from callers. */
  isDestructive?: boolean;
  /** The choices of when it ends by itself, in minutes; null stands for never. */
  ends?: readonly (number | null)[];
  onClose(): void;
  /** `minutes` is the choice of when it ends. */
  onSubmit(reason: string, minutes: number | null): Promise<unknown>;
}

export function ReasonDialog({ ends, consequence, isDestructive = false, onSubmit, ...form }: ReasonDialogProps) {
  const t = useTexts(texts);
  const [reason, setReason] = useState("");
  const [minutes, setMinutes] = useState(ends?.[0] ?? null);
  const [fieldFault, setFieldFault] = useState<ApiFault>();
  const send = async () => {
    setFieldFault(undefined);
    try {
      await onSubmit(reason, minutes);
    } catch (error) {
      if (error instanceof ApiFault && error.field === "reason") setFieldFault(error);
      throw error;
    }
  };
  const textOf = (each: number | null) => (each === null ? t.open : each < 60 ? t.minutes(each) : t.hours(each / 60));
  return (
    <FormDialog {...form} {...(isDestructive && { color: "red.9" })} onSubmit={send}>
      {isDestructive ? (
        <Alert color="red" p="xs">
          {consequence}
        </Alert>
      ) : (
        <Text>{consequence}</Text>
      )}
      <TextInput
        label={t.reason}
        description={t.reasonHelp}
        required
        maxLength={reasonLengthMax}
        data-autofocus
        value={reason}
        error={fieldFault?.message}
        onChange={({ currentTarget }) => setReason(currentTarget.value)}
      />
      {ends !== undefined && (
        <Select
          label={t.ends}
          data={ends.map((each) => ({ value: String(each), label: textOf(each) }))}
          value={String(minutes)}
          onChange={(value) => setMinutes(value === null || value === "null" ? null : Number(value))}
          allowDeselect={false}
        />
      )}
    </FormDialog>
  );
}
