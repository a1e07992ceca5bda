import { type OpenApiDocument, resolve, type Schema } from './document.ts';

type Schemas = OpenApiDocument['components']['schemas'];

/** A row in the table of a body's fields. */
export interface SchemaRow {
  readonly name: string;
  /** Depth of the object that contains the field. 0 is the body itself. */
  readonly depth: number;
  /** The type in words, for example `array of integer (int64)`. */
  readonly type: string;
  readonly isRequired: boolean;
  readonly isReadOnly: boolean;
  readonly isDeprecated: boolean;
  readonly description: string | undefined;
}

/** Depth of the deepest objects whose fields are listed. */
const maxDepth = 3;

/** Combines the parts of an `allOf`, so that their fields are listed as the fields of one object. */
function flat(schema: Schema, schemas: Schemas): Schema {
  const { allOf = [], ...own } = resolve(schema, schemas);
  const parts = [own, ...allOf.map((part) => flat(part, schemas))];
  const required = parts.flatMap((part) => part.required ?? []);
  const properties: Record<string, Schema> = Object.assign({}, ...parts.map((part) => part.properties));
  return {
    ...Object.assign({}, ...parts.toReversed()),
    ...(Object.keys(properties).length > 0 && { properties, required }),
  };
}

/** Returns the alternatives of a schema, except null. */
const alternatives = ({ anyOf, oneOf }: Schema, schemas: Schemas): readonly Schema[] =>
  [...(anyOf ?? []), ...(oneOf ?? [])]
    .map((part) => flat(part, schemas))
    .filter(({ type }) => type !== 'null');

/** Returns a schema's type in words. Null is omitted, because descriptions explain it. */
export function typeText(schema: Schema, schemas: Schemas): string {
  const { type, format, items, const: constant, ...rest } = flat(schema, schemas);
  const types = [type ?? []].flat().filter((name) => name !== 'null');
  if (types.includes('array') && items !== undefined) return `array of ${typeText(items, schemas)}`;
  if (constant !== undefined) return JSON.stringify(constant);
  if (types.length > 0) return `${types.join(' or ')}${format === undefined ? '' : ` (${format})`}`;
  const parts = alternatives(rest, schemas).map((part) => typeText(part, schemas));
  return parts.length === 0 ? 'any' : [...new Set(parts)].join(' or ');
}

/** Returns the object whose fields a schema contains: its own, its elements' or its only alternative's. */
function objectIn(schema: Schema, schemas: Schemas): Schema {
  const own = flat(schema, schemas);
  if (own.properties !== undefined) return own;
  if (own.items !== undefined) return objectIn(own.items, schemas);
  const [only, ...others] = alternatives(own, schemas);
  return only === undefined || others.length > 0 ? own : objectIn(only, schemas);
}

/** Returns the fields of a body in the order of the schema, which is the order of the definition. */
export function schemaRows(schema: Schema, schemas: Schemas, depth = 0): readonly SchemaRow[] {
  const { properties = {}, required = [] } = objectIn(schema, schemas);
  return Object.entries(properties).flatMap(([name, property]) => {
    const field = flat(property, schemas);
    return [
      {
        name,
        depth,
        type: typeText(field, schemas),
        isRequired: required.includes(name),
        isReadOnly: field.readOnly === true,
        isDeprecated: field.deprecated === true,
        description: property.description ?? field.description,
      },
      ...(depth < maxDepth ? schemaRows(field, schemas, depth + 1) : []),
    ];
  });
}
