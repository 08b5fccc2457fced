/** Which group may use which model, and at which price factor. */
import { Button, Group, Text, TextInput } from "@mantine/core";
import { useMemo } from "react";
import { translated, useFormats, useTexts } from "../app/language.tsx";
import type { Catalogue, Model } from "./access.tsx";
import { type Column, Cut, DataTable } from "./data-table.tsx";
import { CheckIcon } from "./icons.tsx";
import { PageLink } from "./link.tsx";
import { Empty } from "./states.tsx";

const texts = translated({
  en: {
    title: "Groups and models",
    about: "A key may use the models of its group. The factor behind a group's name multiplies the prices.",
    model: "Model",
    search: "Search models",
    back: "All models",
    may: "Yes",
    mayNot: "No",
    none: "No model matches",
    count: (models: string) => `${models} models`,
  },
  zh: {
    title: "分组与模型",
    about: "密钥可使用其分组的模型。分组名称后的系数会乘以价格。",
    model: "模型",
    search: "搜索模型",
    back: "全部模型",
    may: "可以",
    mayNot: "不可以",
    none: "没有匹配的模型",
    count: (models: string) => `${models} 个模型`,
  },
});

export interface GroupTableProps {
  catalogue: Catalogue;
  search: string;
  onSearch(text: string): void;
  back(): void;
}

export function GroupTable({ catalogue, search, onSearch, back }: GroupTableProps) {
  const t = useTexts(texts);
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
        empty={<Empty title={t.none} />}
      />
    </>
  );
}
