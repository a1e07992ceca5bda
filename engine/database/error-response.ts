/** The fields of an ErrorResponse that errors have in this folder, by their letters. */
const [message, state, constraint, column, where] = [0x4d, 0x43, 0x6e, 0x63, 0x57];

/** An error of the server, with properties named as `pg` names them. */
export interface ServerError extends Error {
  /** SQLSTATE. */
  readonly code: string;
  readonly constraint: string | undefined;
  readonly column: string | undefined;
  /** The functions that ran, the innermost first. */
  readonly where: string | undefined;
}

/** The error of an ErrorResponse: fields of a letter and a text that ends in a zero byte. */
export function errorOf(bytes: Buffer, start: number, end: number): ServerError {
  const fields = new Map<number | undefined, string>();
  for (let at = start; at < end && bytes[at] !== 0; ) {
    const stop = bytes.indexOf(0, at);
    fields.set(bytes[at], bytes.toString('utf8', at + 1, stop));
    at = stop + 1;
  }
  return Object.assign(new Error(fields.get(message)), {
    code: fields.get(state) ?? '',
    constraint: fields.get(constraint),
    column: fields.get(column),
    where: fields.get(where),
  });
}
