/** A place for one file: dropped on it, or chosen by its button. */
import { Button, FileButton, Stack, Text } from "@mantine/core";
import { type DragEvent, useState } from "react";

interface DropZoneProps {
  title: string;
  help: string;
  button: string;
  /** Such as `.jsonl`; the button offers only such files. */
  accept: string;
  isDisabled?: boolean;
  onFile(file: File): void;
}

export function DropZone({ title, help, button, accept, isDisabled = false, onFile }: DropZoneProps) {
  const [isOver, setIsOver] = useState(false);
  const drag = (isInside: boolean) => (event: DragEvent) => {
    event.preventDefault();
    setIsOver(isInside && !isDisabled);
  };
  const drop = (event: DragEvent) => {
    drag(false)(event);
    const [file] = event.dataTransfer.files;
    if (file !== undefined && !isDisabled) onFile(file);
  };
  return (
    <section
      className="drop-zone"
      data-over={isOver || undefined}
      aria-label={title}
      onDragOver={drag(true)}
      onDragLeave={drag(false)}
      onDrop={drop}
    >
      <Stack align="center">
        <Text fw={600}>{title}</Text>
        <Text c="dimmed" ta="center">
          {help}
        </Text>
        <FileButton accept={accept} disabled={isDisabled} onChange={(file) => file !== null && onFile(file)}>
          {(props) => (
            <Button {...props} variant="default" disabled={isDisabled}>
              {button}
            </Button>
          )}
        </FileButton>
      </Stack>
    </section>
  );
}
