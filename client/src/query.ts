// Queries: conditions in a body, and their conversion from and to the parameters of a list's URL.

/** A condition on a field, with one of the operators of the field's filter. */
export interface FieldCondition {
  readonly field: string;
  readonly op: string;
  readonly value: unknown;
}

/** A condition, or conditions of which a record must meet all or any, or must not meet one. */
export type AnyCondition<C> =
  | C
  | { readonly all: readonly AnyCondition<C>[] }
  | { readonly any: readonly AnyCondition<C>[] }
  | { readonly not: AnyCondition<C> };

/** The body of a query, with the names of fields and the values as text. */
export interface QueryBody {
  readonly where?: AnyCondition<FieldCondition>;
  readonly sort?: string;
  readonly dir?: string;
  readonly fields?: string;
  readonly expand?: string;
  readonly q?: string;
}

/** The parameters of a list that are properties of a query's body. */
const bodyParameters = ['sort', 'dir', 'fields', 'expand', 'q'] as const;
/** The parameters of a list that are neither in a query's body nor filters. */
const otherParameters: readonly string[] = ['page', 'cursor', 'org', 'trashed'];

/**
 * Converts the parameters of a list's URL to the body of a query with the same records in the same order. `page` and `cursor`,
 * which select a page, and `org` and `trashed`, which stay in the URL of the query, are omitted.
 * @param url the URL or its query string, for example `?status=New&created_at[gte]=2026-03-01&sort=-created_at`
 */
export function toQuery(url: string): QueryBody {
  const parameters = new URLSearchParams(url.slice(url.indexOf('?') + 1));
  const own: Record<string, string> = {};
  for (const name of bodyParameters) {
    const value = parameters.getAll(name).join();
    if (value !== '') own[name] = value;
  }
  const reserved = [...bodyParameters, ...otherParameters];
  const names = new Set<string>();
  parameters.forEach((_, name) => {
    names.add(name);
  });
  const filters = [...names].filter((name) => !reserved.includes(name));
  const conditions = filters.flatMap((name): FieldCondition[] => {
    const [, field = name, op = 'eq'] = /^(.*)\[(\w+)\]$/.exec(name) ?? [];
    // A list ignores empty values.
    const values = parameters.getAll(name).filter((value) => value !== '');
    if (values.length === 0) return [];
    return [{ field, op, value: values.length === 1 ? values[0] : values }];
  });
  const [first] = conditions;
  if (first === undefined) return own;
  return { where: conditions.length === 1 ? first : { all: conditions }, ...own };
}

/**
 * Converts the body of a query to the parameters of a list's URL with the same records in the same order.
 * @returns undefined if a URL cannot contain the conditions, for example because they contain `any` or `not`
 */
export function fromQuery(body: QueryBody): URLSearchParams | undefined {
  const conditions = body.where === undefined ? [] : conditionsIn(body.where);
  const parameters = new URLSearchParams();
  for (const { field, op, value } of conditions ?? []) {
    const name = op === 'eq' ? field : `${field}[${op}]`;
    const values = [value].flat();
    // A list ignores empty values, and a repeated parameter means any of the values.
    const canBeInUrl = (item: unknown) => item !== '' && item !== null && item !== undefined;
    if (parameters.has(name) || values.length === 0 || !values.every(canBeInUrl)) return undefined;
    for (const item of values) parameters.append(name, String(item));
  }
  for (const name of bodyParameters) {
    const value = body[name];
    if (value !== undefined) parameters.set(name, value);
  }
  return conditions === undefined ? undefined : parameters;
}

/** Returns conditions that a record must all meet, or undefined for other groups. */
function conditionsIn(where: AnyCondition<FieldCondition>): readonly FieldCondition[] | undefined {
  if ('field' in where) return [where];
  if (!('all' in where)) return undefined;
  const members = where.all.map(conditionsIn);
  const known = members.filter((member) => member !== undefined);
  return known.length < members.length ? undefined : known.flat();
}
