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

/**
 * Parameters whose values are field names. `fields` is not included because responses use the requested
 * names.
 */
const fieldNameParameters = new Set(['sort', 'expand']);
const baseName = /^\w+/;
/** Matches a field's name in a parameter, in which `-` can precede it. */
const listedName = /(?<=^-?)\w+/;

/** Returns a translator for a resource's former field names, or undefined if the resource has none. */
export function aliasesOf({ fields }: ResourceDefinition): Aliases | undefined {
  const current = new Map(fields.flatMap(({ name, aliasOf }) => (aliasOf ? [[name, aliasOf.name]] : [])));
  if (current.size === 0) return undefined;
  const name = (alias: string) => current.get(alias) ?? alias;
  // Names of second-level relations start with the name of a field.
  const names = (list: string) =>
    list
      .split(',')
      .map((text) => text.replace(listedName, name))
      .join();
  const record = (body: Body): Body => {
    let result: Record<string, unknown> | undefined;
    for (const [from, to] of current) {
      if (!Object.hasOwn(body, from)) continue;
      result ??= { ...body };
      // If the caller sends both names, the current name's value takes precedence.
      result[to] = Object.hasOwn(body, to) ? body[to] : body[from];
      delete result[from];
    }
    return result ?? body;
  };
  return {
    name,
    query: (query) => {
      const translated: Record<string, Query[string]> = {};
      for (const [parameter, value] of Object.entries(query)) {
        const key = parameter.replace(baseName, name);
        const values = [value ?? []].flat();
        const renamedValues = fieldNameParameters.has(parameter) ? values.map(names) : values;
        const allValues = [...[translated[key] ?? []].flat(), ...renamedValues];
        translated[key] = allValues.length === 1 ? allValues[0] : allValues;
      }
      return translated;
    },
    body: (body) => {
      const { records, match } = body;
      return {
        ...record(body),
        ...(Array.isArray(records) && {
          records: records.map((item) => (isObject(item) ? record(item) : item)),
        }),
        ...(Array.isArray(match) && {
          match: match.map((element) => (typeof element === 'string' ? name(element) : element)),
        }),
      };
    },
  };
}

const isObject = (value: unknown): value is Body =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
