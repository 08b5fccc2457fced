/** Which group may use which model, and at which price factor. */
import { Button, Group, Text, TextInput } from "@mantine/core";
import { useMemo } from "react";
import { useFormats } from "../app/language.tsx";
import type { Catalogue, Model } from "./access.tsx";
import { type Column, Cut, DataTable } from "./data-table.tsx";
import { useGroupTableTexts } from "./group-table.texts.ts";
import { CheckIcon } from "./icons.tsx";
import { PageLink } from "./link.tsx";
import { Empty } from "./states.tsx";

export interface GroupTableProps {
  catalogue: Catalogue;
  search: string;
  onSearch(text: string): void;
  back(): void;
}

export function GroupTable({ catalogue, search, onSearch, back }: GroupTableProps) {
  const t = useGroupTableTexts();
  const format = useFormats();
  const columns = useMemo(
    (): Column<Model>[] => [
      {
        id: "model",
        title: t.model,
        sortBy: ({ id }) => id,
        cell: ({ id }) => (
          <PageLink to="/models/$model" params={{ model: id }} fw={500}>
            <Cut>{id}</Cut>
          </PageLink>
        ),
      },
      ...catalogue.groups.map(({ name, priceRatio, models }): Column<Model> => {
        const own = new Set(models);
        return {
          id: `group ${name}`,
          title: `${name} × ${format.count(priceRatio)} (${t.count(format.count(models.length))})`,
          sortBy: ({ id }) => Number(own.has(id)),
          cell: ({ id }) =>
            own.has(id) ? (
              <span role="img" aria-label={t.may}>
                <CheckIcon />
              </span>
            ) : (
              <Text span c="dimmed" role="img" aria-label={t.mayNot}>
                –
              </Text>
            ),
        };
      }),
    ],
    [catalogue, t, format],
  );
  const rows = catalogue.models.filter(({ id, name }) => `${id} ${name}`.toLowerCase().includes(search.toLowerCase()));
  return (
    <>
      <Text c="dimmed">{t.about}</Text>
      <Group gap="xs">
        <TextInput
          aria-label={t.search}
          placeholder={t.search}
          value={search}
          onChange={({ currentTarget }) => onSearch(currentTarget.value)}
          w={280}
        />
        <Button variant="default" onClick={back}>
          {t.back}
        </Button>
      </Group>
      <DataTable
        label={t.title}
        columns={columns}
        rows={rows}
        rowId={({ id }) => id}
        minWidth={240 + 140 * catalogue.groups.length}
        empty={<Empty title={t.nothingFound} />}
      />
    </>
  );
}
