/** The state of a batch, and the bar of its requests. */
import { useFormats } from "../app/language.tsx";
import type { Item } from "../app/queries.ts";
import { SegmentBar, SegmentLegend } from "../parts/segment-bar.tsx";
import { type CellColor, StateCell } from "../parts/table.tsx";
import { useBatchStateTexts } from "./batch-state.texts.ts";

export type Batch = Item<"listBatches">;

const colors: Record<Batch["state"], CellColor> = {
  receiving: "gray",
  validating: "gray",
  failed: "red",
  in_progress: "blue",
  cancelling: "gray",
  finalizing: "blue",
  completed: "teal",
  expired: "orange",
  cancelled: "gray",
};

export const doneOf = ({ succeeded, errored, cancelled, expired }: Batch): number =>
  succeeded + errored + cancelled + expired;

/** Green says that every request succeeded. */
export function BatchState({ batch }: { batch: Batch }) {
  const t = useBatchStateTexts();
  const { state, succeeded, total } = batch;
  return state === "completed" && succeeded < total ? (
    <StateCell color="yellow">{t.completedWithErrors}</StateCell>
  ) : (
    <StateCell color={colors[state]}>{t[state]}</StateCell>
  );
}

/** The requests of a batch by what became of them, in the order of the bar. */
function useSegments(batch: Batch) {
  const t = useBatchStateTexts();
  return [
    { name: t.succeeded, value: batch.succeeded, color: "var(--mantine-color-teal-6)" },
    { name: t.errored, value: batch.errored, color: "var(--mantine-color-red-6)" },
    { name: t.expiredRequests, value: batch.expired, color: "var(--mantine-color-orange-6)" },
    { name: t.cancelledRequests, value: batch.cancelled, color: "var(--mantine-color-gray-6)" },
    { name: t.running, value: batch.running, color: "var(--mantine-color-blue-4)" },
  ];
}

export function BatchBar({ batch }: { batch: Batch }) {
  const t = useBatchStateTexts();
  const format = useFormats();
  return <SegmentBar label={t.progress} segments={useSegments(batch)} total={batch.total} textOf={format.count} />;
}

/** The bar at full width, with how many requests each part has. */
export function BatchProgress({ batch }: { batch: Batch }) {
  const t = useBatchStateTexts();
  const format = useFormats();
  const segments = useSegments(batch);
  const waiting = {
    name: t.waiting,
    value: batch.total - doneOf(batch) - batch.running,
    color: "var(--mantine-color-default-border)",
  };
  return (
    <>
      <SegmentBar label={t.progress} segments={segments} total={batch.total} height={18} textOf={format.count} />
      <SegmentLegend
        segments={[...segments, waiting].filter(({ value }, place) => value > 0 || place < 2)}
        textOf={format.count}
      />
    </>
  );
}
