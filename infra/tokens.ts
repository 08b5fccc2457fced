/** The tokens of TypeScript sources, for programs that count or read them. */
import { SyntaxKind } from "typescript/unstable/ast";
import { createScanner } from "typescript/unstable/ast/scanner";

export interface Token {
  readonly kind: SyntaxKind;
  readonly text: string;
  /** In the source, of the token's begin. */
  readonly offset: number;
}

/** After these tokens a slash divides; after all others it begins a regular expression. */
const endsOperand = new Set([
  SyntaxKind.Identifier,
  SyntaxKind.PrivateIdentifier,
  SyntaxKind.NumericLiteral,
  SyntaxKind.BigIntLiteral,
  SyntaxKind.StringLiteral,
  SyntaxKind.RegularExpressionLiteral,
  SyntaxKind.NoSubstitutionTemplateLiteral,
  SyntaxKind.TemplateTail,
  SyntaxKind.CloseParenToken,
  SyntaxKind.CloseBracketToken,
  SyntaxKind.ThisKeyword,
]);
const closers = new Set([SyntaxKind.CloseParenToken, SyntaxKind.CloseBracketToken, SyntaxKind.CloseBraceToken]);

/** All tokens besides comments, white space and trailing commas, which are formatting. */
export function* tokensIn(source: string): Generator<Token> {
  const scanner = createScanner(true, undefined, source);
  /** The open braces: whether each belongs to a template literal. */
  const braces: boolean[] = [];
  let comma: Token | undefined;
  let previous = SyntaxKind.Unknown;
  for (let kind = scanner.scan(); kind !== SyntaxKind.EndOfFile; kind = scanner.scan()) {
    const isSlash = kind === SyntaxKind.SlashToken || kind === SyntaxKind.SlashEqualsToken;
    if (isSlash && !endsOperand.has(previous)) kind = scanner.reScanSlashToken();
    if (kind === SyntaxKind.TemplateHead) braces.push(true);
    else if (kind === SyntaxKind.OpenBraceToken) braces.push(false);
    else if (kind === SyntaxKind.CloseBraceToken && braces.at(-1) === true) {
      kind = scanner.reScanTemplateToken(false);
      if (kind === SyntaxKind.TemplateTail) braces.pop();
    } else if (kind === SyntaxKind.CloseBraceToken) braces.pop();
    previous = kind;
    if (comma !== undefined && !closers.has(kind)) yield comma;
    const token = { kind, text: scanner.getTokenText(), offset: scanner.getTokenStart() };
    comma = kind === SyntaxKind.CommaToken ? token : undefined;
    if (comma === undefined) yield token;
  }
}
