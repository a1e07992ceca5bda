import type { ResourceDefinition } from '../definition/index.ts';
import type { FieldIssue } from '../errors.ts';
import { customFieldName, type Field } from '../fields/index.ts';
import type { Query } from '../query/index.ts';
import { allows, fieldGroups, type Grants, groupObject } from './access.ts';
import type { Body } from './body.ts';
import type { CustomWrite } from './custom-issues.ts';
import { unknownCustomField } from './unknown-names.ts';

/** The custom fields of an organization, by resource. */
export type CustomFields = ReadonlyMap<string, readonly Field[]>;

/** A resource's definition as a caller sees it. */
type VisibleDefinition = Pick<ResourceDefinition, 'name' | 'fields'>;

/** Returns the custom fields of a resource's records in the caller's organization, as the caller sees them. */
export const customFieldsOf = (
  {
    customFields,
    caller: {
      principal: { grants },
    },
  }: {
    readonly customFields?: CustomFields | undefined;
    readonly caller: { readonly principal: { readonly grants: Grants } };
  },
  definition: VisibleDefinition,
): readonly Field[] =>
  visibleCustomFields(customFields?.get(definition.name) ?? noFields, definition, grants);

/** The custom fields of a resource that has none. */
export const noFields: readonly Field[] = [];

/** Custom fields as callers see them, by the caller's rights to their groups. */
const visibleFields = new WeakMap<readonly Field[], Map<string, readonly Field[]>>();

/**
 * Returns the custom fields that a caller sees. Fields that it cannot write are read-only. Callers with the same rights share the
 * result.
 */
export function visibleCustomFields(
  fields: readonly Field[],
  definition: VisibleDefinition,
  grants: Grants,
): readonly Field[] {
  if (fields.every(({ group }) => group === undefined)) return fields;
  // A group that the definition no longer has is not readable.
  const readable = fieldGroups(definition);
  const writable = readable.filter((group) => allows(grants, groupObject(definition.name, group), 'update'));
  const byRights = visibleFields.get(fields) ?? new Map<string, readonly Field[]>();
  visibleFields.set(fields, byRights);
  const key = `${readable.join()}/${writable.join()}`;
  const visible =
    byRights.get(key) ??
    fields
      .filter(({ group }) => group === undefined || readable.includes(group))
      .map((field) =>
        field.group === undefined || writable.includes(field.group) ? field : { ...field, readOnly: true },
      );
  byRights.set(key, visible);
  return visible;
}

/**
 * Returns a body with the values that its write assigns to the custom fields that the caller can write. Null stands for a field's
 * default. If `custom` is null or the write replaces the record, all other fields are set to their defaults. The statement that
 * creates a record adds the defaults of absent fields, because an upsert must not change them in existing records.
 */
export function withCustomValues(body: Body, fields: readonly Field[], write: CustomWrite): Body {
  const { custom } = body;
  if (custom === undefined || fields.length === 0) return body;
  const setsAll = custom === null || write === 'replace';
  const values: Record<string, unknown> = {};
  for (const { custom: own, default: absent, readOnly } of fields) {
    if (own === undefined || readOnly) continue;
    const value = (custom as Body | null)?.[own.key];
    if (value !== undefined || setsAll) values[own.key] = value ?? absent;
  }
  return { ...body, custom: values };
}

/** Returns issues for filters by custom fields that do not exist. Filters with an operator are reported elsewhere. */
export function unknownCustomFilters(query: Query, fields: readonly Field[]): readonly FieldIssue[] {
  const names = new Set(fields.map(({ name }) => name));
  const unknownIssue = unknownCustomField([...names]);
  return Object.keys(query)
    .filter((name) => name.startsWith(customFieldName('')) && !name.includes('[') && !names.has(name))
    .map(unknownIssue);
}
