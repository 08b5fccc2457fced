/**
 * Markdown as elements. Nothing of the text becomes HTML: a model's answer may contain words of
 * anybody.
 */
import { Anchor, Code, Divider, List, Table, Text, Title } from "@mantine/core";
import { lexer, type Token, type Tokens } from "marked";
import { memo, type ReactNode } from "react";
import { useTexts } from "../app/texts.ts";
import { CodeBlock } from "./copy.tsx";

/** Characters of a text, and of one word, whose reading takes a browser little time. */
const [charactersMax, wordMax] = [200_000, 2_000];

/** The blocks of a text; undefined if it is too long, or nested too deeply. */
function blocksOf(text: string): Token[] | undefined {
  if (text.length > charactersMax || text.split(/\s/).some(({ length }) => length > wordMax)) return undefined;
  try {
    return lexer(text);
  } catch {
    return undefined;
  }
}

/** Draws again only when the text changes. A text that is too large for Markdown stays plain. */
export const Markdown = memo(({ text }: { text: string }) => {
  const tokens = blocksOf(text);
  return (
    <div className="markdown">
      {tokens === undefined ? (
        <Text style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>{text}</Text>
      ) : (
        <Blocks tokens={tokens} />
      )}
    </div>
  );
});

/** A text whose entities, such as &amp;, are characters. A document of a parser runs nothing. */
const decoded = (text: string) =>
  text.replace(
    /&(?:#\d{1,7}|#x[\da-f]{1,6}|[a-z][a-z\d]{1,31});/gi,
    (entity) => new DOMParser().parseFromString(entity, "text/html").documentElement.textContent ?? entity,
  );

const Blocks = ({ tokens }: { tokens: readonly Token[] }) =>
  // biome-ignore lint/suspicious/noArrayIndexKey: an answer only grows at its end.
  tokens.map((token, index) => <Block key={index} token={token as Tokens.Generic & Token} />);

const Inlines = ({ tokens }: { tokens: readonly Token[] | undefined }) =>
  // biome-ignore lint/suspicious/noArrayIndexKey: an answer only grows at its end.
  tokens?.map((token, index) => <Inline key={index} token={token} />);

function Block({ token }: { token: Token }): ReactNode {
  const t = useTexts();
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "hr":
      return <Divider />;
    case "code":
      return <CodeBlock code={token.text} label={token.lang || t.code} />;
    case "heading":
      // Headings of the page are of the first and second order.
      return (
        <Title order={token.depth <= 2 ? 3 : 4}>
          <Inlines tokens={token.tokens} />
        </Title>
      );
    case "blockquote":
      return (
        <blockquote>
          <Blocks tokens={token.tokens ?? []} />
        </blockquote>
      );
    case "list":
      return <ListBlock list={token as Tokens.List} />;
    case "table":
      return <TableBlock table={token as Tokens.Table} />;
    case "text":
    case "checkbox":
      return <Inline token={token} />;
    case "paragraph":
      return (
        <Text component="p">
          <Inlines tokens={token.tokens} />
        </Text>
      );
    default:
      return <Text component="p">{token.raw}</Text>;
  }
}

const ListBlock = ({ list: { ordered, start, items } }: { list: Tokens.List }) => (
  <List type={ordered ? "ordered" : "unordered"} {...(ordered && start !== "" && { start })} listStyleType="revert">
    {items.map(({ tokens }, index) => (
      // biome-ignore lint/suspicious/noArrayIndexKey: an answer only grows at its end.
      <List.Item key={index}>
        <Blocks tokens={tokens} />
      </List.Item>
    ))}
  </List>
);

const TableBlock = ({ table: { header, rows } }: { table: Tokens.Table }) => (
  <Table.ScrollContainer minWidth={0}>
    <Table withTableBorder withColumnBorders>
      <Table.Thead>
        <Table.Tr>
          {header.map(({ tokens, align }, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a column has no other identity.
            <Table.Th key={index} {...(align && { ta: align })}>
              <Inlines tokens={tokens} />
            </Table.Th>
          ))}
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {rows.map((row, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a row has no other identity.
          <Table.Tr key={index}>
            {row.map(({ tokens, align }, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: a cell has no other identity.
              <Table.Td key={at} {...(align && { ta: align })}>
                <Inlines tokens={tokens} />
              </Table.Td>
            ))}
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  </Table.ScrollContainer>
);

/** A link that leaves the page; undefined for an address of another kind. */
const webAddress = /^(?:https?:\/\/|mailto:)/i;

function Inline({ token }: { token: Token }): ReactNode {
  switch (token.type) {
    case "strong":
      return (
        <strong>
          <Inlines tokens={token.tokens} />
        </strong>
      );
    case "em":
      return (
        <em>
          <Inlines tokens={token.tokens} />
        </em>
      );
    case "del":
      return (
        <del>
          <Inlines tokens={token.tokens} />
        </del>
      );
    case "codespan":
      return <Code>{token.text}</Code>;
    case "br":
      return <br />;
    case "link":
    case "image": {
      const href = decoded(token.href);
      const content = token.type === "link" ? <Inlines tokens={token.tokens} /> : decoded(token.text) || href;
      if (!webAddress.test(href)) return content;
      return (
        <Anchor href={href} target="_blank" rel="noreferrer nofollow" inherit>
          {content}
        </Anchor>
      );
    }
    case "text":
      return token.tokens === undefined ? decoded(token.text) : <Inlines tokens={token.tokens} />;
    case "checkbox":
      return token.checked ? "☑ " : "☐ ";
    case "html":
      return /^<br\s*\/?>$/i.test(token.text) ? <br /> : token.raw;
    case "escape":
      return token.text;
    default:
      return token.raw;
  }
}
