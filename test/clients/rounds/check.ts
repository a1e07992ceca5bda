/** Fails the round. */
export function check(condition: unknown, what: string): asserts condition {
  if (!condition) throw new Error(what);
}

/** The parameters of the next page, as `Link` has them; undefined on the last one. */
export function nextPage(headers: Headers): Record<string, string> | undefined {
  const [, address] = /<([^>]+)>; rel="next"/.exec(headers.get('link') ?? '') ?? [];
  return address === undefined
    ? undefined
    : Object.fromEntries(new URL(address, 'http://relative').searchParams);
}

/** Leads that the round makes: more than a page of them. */
export const count = 25;
export const company = 'Clients & Söhne';
