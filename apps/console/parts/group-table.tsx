/** Which group may use which model, and at which price factor. */
import { Button, Group, Text, TextInput } from "@mantine/core";
import { useMemo } from "react";
import { useFilters } from "../app/address.ts";
import type { Catalogue, Model } from "./access.tsx";
import { Cut } from "./facts.tsx";
import { useGroupTableTexts } from "./group-table.texts.ts";
import { CheckIcon } from "./icons.tsx";
import { ModelLink } from "./link.tsx";
import { Empty } from "./page.tsx";
import { DataTable, useColumns } from "./table.tsx";

export function GroupTable({ catalogue }: { catalogue: Catalogue }) {
  const t = useGroupTableTexts();
  const { search, filter } = useFilters();
  const text = search.search ?? "";
  const columns = useGroupColumns(catalogue);
  const rows = catalogue.models.filter(({ id, name }) => `${id} ${name}`.toLowerCase().includes(text.toLowerCase()));
  return (
    <>
      <Text c="dimmed">{t.about}</Text>
      <Group>
        <TextInput
          aria-label={t.search}
          placeholder={t.search}
          value={text}
          onChange={({ currentTarget }) => filter({ search: currentTarget.value || undefined })}
          w={280}
        />
        <Button variant="default" onClick={() => filter({ view: undefined }, { isStep: true })}>
          {t.back}
        </Button>
      </Group>
      <DataTable
        label={t.title}
        columns={columns}
        rows={rows}
        minWidth={240 + 140 * catalogue.groups.length}
        empty={<Empty title={t.nothingFound} />}
      />
    </>
  );
}

function useGroupColumns({ groups }: Catalogue) {
  const t = useGroupTableTexts();
  const c = useColumns<Model>();
  return useMemo(
    () => [
      c.cell(
        "model",
        t.model,
        ({ id }) => (
          <ModelLink id={id} fw={500}>
            <Cut>{id}</Cut>
          </ModelLink>
        ),
        { sortBy: ({ id }) => id },
      ),
      ...groups.map(({ name, priceRatio, models }) => {
        const own = new Set(models);
        const title = `${name} × ${c.format.count(priceRatio)} (${t.count(c.format.count(models.length))})`;
        return c.cell(
          `group ${name}`,
          title,
          ({ id }) => (
            <Text span role="img" aria-label={own.has(id) ? t.may : t.mayNot} c={own.has(id) ? undefined : "dimmed"}>
              {own.has(id) ? <CheckIcon /> : "–"}
            </Text>
          ),
          { sortBy: ({ id }) => Number(own.has(id)) },
        );
      }),
    ],
    [groups, t, c],
  );
}
