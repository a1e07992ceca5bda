/** Fails the round unless the condition is met. */
export function check(condition: unknown, what: string): asserts condition {
  if (!condition) throw new Error(what);
}

/** Returns the next page's parameters from the `Link` header, or undefined on the last page. */
export function nextPage(headers: Headers): Record<string, string> | undefined {
  const [, address] = /<([^>]+)>; rel="next"/.exec(headers.get('link') ?? '') ?? [];
  return address === undefined
    ? undefined
    : Object.fromEntries(new URL(address, 'http://relative').searchParams);
}

/** Number of leads that the round creates, which is more than one page. */
export const count = 25;
export const company = 'Clients & Söhne';
