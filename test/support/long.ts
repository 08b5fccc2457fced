/** `npm run test:long` plays all cases; `npm test` plays a part of them that fits into minutes. */
export const isLong = process.env.TEST_LONG === "1";
