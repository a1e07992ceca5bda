/** Parsers of column types for both drivers, by type OID: bigint as decimal text, timestamptz as Date. */
export const parsers: Readonly<Record<number, (text: string) => unknown>> = {
  20: (text) => text,
  1184: (text) => new Date(text),
};
