/** The `Content-Disposition` of a file that a browser saves: https://www.rfc-editor.org/rfc/rfc6266 */
export const attachmentOf = (filename: string): string =>
  `attachment; filename*=UTF-8''${encodeURIComponent(filename).replaceAll("'", "%27")}`;
