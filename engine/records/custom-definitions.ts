import { LRUCache } from 'lru-cache';
import { type Database, type TtlCache, ttlCache } from '../database/index.ts';
import { type CustomFieldOptions, type CustomTypeName, readCustomField } from '../definition/index.ts';
import { type Field, hasCustomFields } from '../fields/index.ts';
import { type Tables, tablesOf } from '../tables/index.ts';
import type { CustomFields } from './custom-fields.ts';
import type { OperationContext } from './operation.ts';

/** A custom field as stored. */
interface StoredField {
  readonly resource: string;
  readonly name: string;
  readonly type: string;
  readonly options: string;
}

/** Returns the properties of a stored custom field. */
export const storedOptions = ({
  type,
  options,
}: Pick<StoredField, 'type' | 'options'>): CustomFieldOptions => ({
  ...(JSON.parse(options) as Omit<CustomFieldOptions, 'type'>),
  type: type as CustomTypeName,
});

/**
 * Checked custom fields by their stored form. The fields of an organization are checked again only after a change. The size is
 * limited, because each change adds an entry.
 */
const checkedFields = new LRUCache<string, CustomFields>({
  max: 1000,
  maxSize: 20_000_000,
  sizeCalculation: (_, key) => key.length,
});

/** Reads the custom fields of an organization, in the order in which they were created. */
async function loadCustomFields(tables: Tables, organization: string): Promise<CustomFields> {
  const rows: readonly StoredField[] = await tables
    .selectFrom('crm_custom_fields')
    .select(['resource', 'name', 'type', 'options'])
    .where('organization_id', '=', organization)
    .where('deleted_at', 'is', null)
    .orderBy('id')
    .execute();
  const key = JSON.stringify(rows);
  const checked = checkedFields.get(key);
  if (checked !== undefined) return checked;
  const fields = new Map<string, Field[]>();
  for (const row of rows) {
    // The default was checked when it was stored. Checking it compiles a validator.
    const { default: absent = null, ...options } = storedOptions(row);
    const { field } = readCustomField(row.resource, row.name, options);
    if (field === undefined) continue;
    fields.set(row.resource, [...(fields.get(row.resource) ?? []), { ...field, default: absent }]);
  }
  checkedFields.set(key, fields);
  return fields;
}

const caches = new WeakMap<Database, TtlCache<CustomFields>>();

/** Returns a database's cache of custom fields by organization. Other nodes see a change after the cache's time to live. */
function cacheOf(database: Database): TtlCache<CustomFields> {
  let cache = caches.get(database);
  if (cache === undefined) {
    cache = ttlCache('custom_fields', (organization) => loadCustomFields(tablesOf(database), organization), {
      ownerOf: (organization) => organization,
    });
    caches.set(database, cache);
  }
  return cache;
}

const uses = new WeakMap<OperationContext['resources'], boolean>();

/**
 * Returns the custom fields in the organization of a caller, for the input of an operation, synchronously if they are cached.
 * Undefined if no resource has custom fields.
 */
export function customFieldsIn(
  database: Database,
  { context: { resources } }: { readonly context: Pick<OperationContext, 'resources'> },
  { principal: { organization } }: { readonly principal: { readonly organization: string } },
): CustomFields | undefined | Promise<CustomFields | undefined> {
  let isUsed = uses.get(resources);
  if (isUsed === undefined) {
    isUsed = [...resources.values()].some(({ definition }) => hasCustomFields(definition));
    uses.set(resources, isUsed);
  }
  return isUsed ? cacheOf(database).get(organization) : undefined;
}

/** Returns the custom fields of an organization. Undefined if none of the resources has custom fields. */
export const organizationCustomFields = async (
  database: Database,
  resources: readonly { readonly definition: Parameters<typeof hasCustomFields>[0] }[],
  organization: string,
): Promise<CustomFields | undefined> =>
  resources.some(({ definition }) => hasCustomFields(definition))
    ? cacheOf(database).get(organization)
    : undefined;

/** Removes an organization's custom fields from the cache, after a change by this node. */
export const forgetCustomFields = (database: Database, organization: string): void =>
  cacheOf(database).forget(organization);
