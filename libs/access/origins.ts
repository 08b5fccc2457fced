/**
 * The web origins from which browsers may use a key:
 * https://fetch.spec.whatwg.org/#http-cors-protocol
 */

/**
 * An origin as browsers write it in the header `Origin`, such as `https://app.example`; `null` is
 * the origin of files; `*` stands for every origin.
 */
export const originForm = /^(\*|null|[a-z][a-z0-9+.-]*:\/\/[^\s/,?#@A-Z]{1,300})$/;

export const originsMax = 100;

export const hasOrigin = (origins: Iterable<string>, origin: string): boolean => {
  for (const allowed of origins) if (allowed === "*" || allowed === origin) return true;
  return false;
};

/** Whether pages of an origin may use a key. A key's own origins replace those of its group. */
export const allowsOrigin = (
  { origins }: { readonly origins?: readonly string[] },
  groupOrigins: readonly string[],
  origin: string,
): boolean => hasOrigin(origins ?? groupOrigins, origin);
