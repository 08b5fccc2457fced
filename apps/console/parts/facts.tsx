/** Facts and figures about one thing: texts in tables, and large figures in boxes. */
import { Badge, Group, Paper, SimpleGrid, type SimpleGridProps, Table, Text } from "@mantine/core";
import { type CSSProperties, type ReactNode, useMemo } from "react";
import { useFormats } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { useTexts } from "../app/texts.ts";
import { useAccountName } from "./accounts.ts";
import { amountsIn, type Precision } from "./amounts.ts";

/** A fact without a value is left out. */
export type Fact = readonly [name: string, value: ReactNode | undefined];

export function Facts({ facts }: { facts: readonly Fact[] }) {
  return (
    <Paper withBorder>
      <Table variant="vertical">
        <Table.Tbody>
          {facts.map(
            ([name, value]) =>
              value !== undefined && (
                <Table.Tr key={name}>
                  <Table.Th w={{ base: 120, sm: 180 }}>{name}</Table.Th>
                  <Table.Td style={{ overflowWrap: "anywhere" }}>{value}</Table.Td>
                </Table.Tr>
              ),
          )}
        </Table.Tbody>
      </Table>
    </Paper>
  );
}

/** The width on a screen of 1280 pixels; wider screens have more. */
const cutAt = (width: number) => ({ "--cut": `${width}px` }) as CSSProperties;

/** One line, cut with an ellipsis; its whole text on hover. */
export const Cut = ({ children, title, width = 220 }: { children: string; title?: string; width?: number }) => (
  <span className="cut" style={cutAt(width)} title={title ?? children}>
    {children}
  </span>
);

/** An account by its name, with its id on hover. */
export function AccountName({ id, width = 220 }: { id: string | null; width?: number }) {
  const nameOf = useAccountName();
  if (id === null || id === "") return "–";
  return (
    <span className="cut" style={cutAt(width)} title={id}>
      {nameOf(id)}
    </span>
  );
}

export const Tags = ({ tags }: { tags: readonly string[] }) =>
  tags.map((tag) => (
    <Badge key={tag} variant="default" mr={4}>
      {tag}
    </Badge>
  ));

/** A person in a table. */
export const Person = ({ name, email }: { name: string; email: string | null }) => (
  <>
    {name}{" "}
    <Text span c="dimmed">
      {email}
    </Text>
  </>
);

/** The currency of the catalogue. */
export const useCurrency = (): string => useRead("readCatalogue").data?.currency ?? "USD";

/** Amounts in this currency. */
export function useMoney() {
  const format = useFormats();
  const currency = useCurrency();
  return useMemo(() => amountsIn(currency, format), [currency, format]);
}

interface MoneyProps {
  of: string | null;
  precision?: Precision;
  /** The CSS variable with the most decimals of its column. */
  alignedIn?: string;
}

/** An amount, rounded for reading; every digit on hover. */
export function Money({ of, precision = "exact", alignedIn }: MoneyProps) {
  const t = useTexts();
  const format = useFormats();
  const currency = useCurrency();
  const money = useMoney();
  if (of === null) return "–";
  const pad = alignedIn && `calc((var(${alignedIn}) - ${format.decimalsOf(of, currency)}) * 1ch)`;
  const why = precision === "exact" ? "" : ` – ${t[precision]}`;
  return (
    <span
      title={money.exact(of, precision) + why}
      {...(pad && { className: "aligned", style: { "--pad": pad } as CSSProperties })}
    >
      {money.rounded(of, precision)}
    </span>
  );
}

export interface Figure {
  name: string;
  title?: ReactNode;
  value: ReactNode;
  /** Below the value. */
  detail?: ReactNode;
  /** On hover. */
  exact?: string | undefined;
  isWrong?: boolean;
}

export function Figures({ figures, cols }: { figures: readonly Figure[]; cols: NonNullable<SimpleGridProps["cols"]> }) {
  return (
    <SimpleGrid cols={cols} spacing="sm">
      {figures.map(({ name, title = name, value, detail, exact, isWrong = false }) => (
        <Paper key={name} withBorder p="sm" {...(isWrong && { bd: "1px solid red" })}>
          <Text c="dimmed" size="sm">
            {title}
          </Text>
          <Text size="xl" fw={600} title={exact}>
            {value}
          </Text>
          {detail !== undefined && (
            <Text c="dimmed" size="xs" component="div">
              {detail}
            </Text>
          )}
        </Paper>
      ))}
    </SimpleGrid>
  );
}

/** Names and values in one row. */
export function FigureLine({ figures }: { figures: readonly Pick<Figure, "name" | "value" | "exact">[] }) {
  return (
    <Group gap="sm" component="dl" m={0} style={{ rowGap: 4 }}>
      {figures.map(({ name, value, exact }) => (
        <div key={name}>
          <Text component="dt" size="xs" c="dimmed">
            {name}
          </Text>
          <Text component="dd" m={0} maw={180} truncate title={exact}>
            {value}
          </Text>
        </div>
      ))}
    </Group>
  );
}
