/** The bounds of object stores: sizes and times. */
/** Bytes of a part of an upload to S3, whose parts have at least 5 MiB. */
export const partBytes = 5 << 20;
export const s3ConnectMs = 5_000;
/** How long S3 may be silent. */
export const s3SilenceMs = 60_000;
