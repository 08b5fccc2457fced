/** The bounds of content on its way from an ingress to control: sizes and times. */
/** Bytes of a request, and of an answer, that are stored. The rest is cut. */
export const contentBytesMax = 1 << 20;
/**
 * So many characters of base64 in a row are an image, a sound or the like: only their number is
 * stored.
 */
export const dataLengthMin = 1_024;
/** Bytes of all entries of the stream in Redis. A new entry removes the oldest ones beyond that. */
export const contentStreamBytesMax = 64 << 20;
/**
 * Bytes of content after it is inflated: more than JSON makes of the largest request and answer.
 */
export const inflatedBytesMax = 16 << 20;
