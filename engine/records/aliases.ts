import type { ResourceDefinition } from '../definition/index.ts';
import type { Query } from '../query/index.ts';
import type { Body } from './body.ts';

/** Translates former field names in requests to current names. */
export interface Aliases {
  readonly query: (query: Query) => Query;
  /** Translates the keys of a record, or of a body that contains records. */
  readonly body: (body: Body) => Body;
  /** Translates a field name. */
  readonly name: (name: string) => string;
}

/** Parameters whose values are field names. Fields named in `?fields=` are returned under that name. */
const naming = new Set(['sort', 'expand', 'match']);
const base = /^\w+/;

/** Returns the former names of a resource's fields, or undefined if it does not have any. */
export function aliasesOf({ fields }: ResourceDefinition): Aliases | undefined {
  const current = new Map(fields.flatMap(({ name, aliasOf }) => (aliasOf ? [[name, aliasOf.name]] : [])));
  if (current.size === 0) return undefined;
  const name = (given: string) => current.get(given) ?? given;
  const names = (given: string) => given.split(',').map(name).join();
  const record = (given: Body): Body => {
    let renamed: Record<string, unknown> | undefined;
    for (const [from, to] of current) {
      if (!Object.hasOwn(given, from)) continue;
      renamed ??= { ...given };
      // A caller that sends both names knows the current one.
      renamed[to] = Object.hasOwn(given, to) ? given[to] : given[from];
      delete renamed[from];
    }
    return renamed ?? given;
  };
  return {
    name,
    query: (query) => {
      const renamed: Record<string, Query[string]> = {};
      for (const [parameter, value] of Object.entries(query)) {
        const key = parameter.replace(base, name);
        const values = [value ?? []].flat();
        const given = naming.has(parameter) ? values.map(names) : values;
        const all = [...[renamed[key] ?? []].flat(), ...given];
        renamed[key] = all.length === 1 ? all[0] : all;
      }
      return renamed;
    },
    body: (body) => {
      const { records, match } = body;
      return {
        ...record(body),
        ...(Array.isArray(records) && {
          records: records.map((each) => (isObject(each) ? record(each) : each)),
        }),
        ...(Array.isArray(match) && {
          match: match.map((each) => (typeof each === 'string' ? name(each) : each)),
        }),
      };
    },
  };
}

const isObject = (value: unknown): value is Body =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
