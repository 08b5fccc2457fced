/** Describes the attachments of a question in the answer: by type and size, or by address. */

const addressCharactersMax = 100;

/** For base64 data. */
export function describedData(mimeType: string, base64: string): string {
  const padding = base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0;
  return `${mimeType}, ${Math.floor((base64.length * 3) / 4) - padding} bytes`;
}

export const describedAddress = (address: string) => `at ${address.slice(0, addressCharactersMax)}`;

/** For an address, which may be a `data:` URL (RFC 2397). */
export function describedUrl(url: string): string {
  const data = /^data:([^;,]{1,80})[^,]{0,80},/.exec(url.slice(0, 200));
  return data ? describedData(data[1] as string, url.slice(data[0].length)) : describedAddress(url);
}
