/** Type codes of the ErrorResponse fields used here. */
const [message, state, table, constraint, column, where] = [0x4d, 0x43, 0x74, 0x6e, 0x63, 0x57];

/** A server error, with pg's property names. */
export interface ServerError extends Error {
  /** The error's SQLSTATE. */
  readonly code: string;
  readonly table: string | undefined;
  readonly constraint: string | undefined;
  readonly column: string | undefined;
  /** Call stack, innermost function first. */
  readonly where: string | undefined;
}

/** Parses an ErrorResponse. Each field consists of a type code and null-terminated text. */
export function errorOf(bytes: Buffer, start: number, end: number): ServerError {
  const fields = new Map<number | undefined, string>();
  for (let at = start; at < end && bytes[at] !== 0; ) {
    const stop = bytes.indexOf(0, at);
    fields.set(bytes[at], bytes.toString('utf8', at + 1, stop));
    at = stop + 1;
  }
  return Object.assign(new Error(fields.get(message)), {
    code: fields.get(state) ?? '',
    table: fields.get(table),
    constraint: fields.get(constraint),
    column: fields.get(column),
    where: fields.get(where),
  });
}
