/** The fields of an ErrorResponse that errors have in this folder, by their letters. */
const [message, state] = [0x4d, 0x43];

/** The error of an ErrorResponse, with its SQLSTATE as `code`: fields of a letter and a text that ends in a zero byte. */
export function errorOf(bytes: Buffer, start: number, end: number): Error & { readonly code: string } {
  const fields = new Map<number | undefined, string>();
  for (let at = start; at < end && bytes[at] !== 0; ) {
    const stop = bytes.indexOf(0, at);
    fields.set(bytes[at], bytes.toString('utf8', at + 1, stop));
    at = stop + 1;
  }
  return Object.assign(new Error(fields.get(message)), { code: fields.get(state) ?? '' });
}
