import { sql } from 'kysely';
import type { CustomFieldOptions } from '../../../engine/definition/index.ts';
import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { errors } from '../../../engine/errors.ts';
import { storedOptions } from '../../../engine/records/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import type { CustomFieldInput } from './input.ts';

/** Maximum number of custom fields of a resource in an organization, including deleted ones. */
const maxFields = 100;
/**
 * Maximum size of the properties of a resource's custom fields in an organization, as JSON in bytes, including deleted ones. Every
 * form of the resource contains them.
 */
const maxOptionsBytes = 100 * 1024;
/**
 * Size by which a change can increase a field's properties even if they are too large in total, in bytes. Fields stored before the
 * limit existed can still become required, for example.
 */
const smallChangeBytes = 100;

/** A custom field of an organization. */
export interface CustomField extends CustomFieldInput {
  readonly id: string;
  readonly resource: string;
  readonly options: CustomFieldOptions;
  readonly createdAt: Date;
  /** When the field was deleted, or null. */
  readonly deletedAt: Date | null;
}

/** Identifies a custom field. */
interface FieldKey {
  readonly organization: string;
  readonly resource: string;
  readonly name: string;
}

const select = (tables: Tables, organization: string) =>
  tables
    .selectFrom('crm_custom_fields')
    .select(['id', 'resource', 'name', 'type', 'options', 'created_at', 'deleted_at'])
    .where('organization_id', '=', organization)
    .orderBy('id');

const toField = (row: Awaited<ReturnType<ReturnType<typeof select>['execute']>>[number]): CustomField => ({
  id: row.id,
  resource: row.resource,
  name: row.name,
  options: storedOptions(row),
  createdAt: row.created_at,
  deletedAt: row.deleted_at,
});

/** Lists the custom fields of an organization, including deleted ones, in the order in which they were created. */
export const listCustomFields = async (
  tables: Tables,
  organization: string,
): Promise<readonly CustomField[]> => (await select(tables, organization).execute()).map(toField);

/** Returns a custom field, which can be deleted. */
export async function findCustomField(
  tables: Tables,
  { organization, resource, name }: FieldKey,
): Promise<CustomField | undefined> {
  const row = await select(tables, organization)
    .where('resource', '=', resource)
    .where('name', '=', name)
    .executeTakeFirst();
  return row && toField(row);
}

const record = (tables: Tables, actor: Actor, organization: string, action: string, id: string) =>
  recordChanges(tables, actor, { organization, action, object: 'custom field', objectId: id });

/** Returns the columns with the properties that can be changed. */
const changeableColumns = ({ type: _, ...options }: CustomFieldOptions) => ({
  options: JSON.stringify(options),
  field_group: options.group ?? null,
});

/**
 * Creates a custom field.
 * @param isVisible returns whether the caller sees a field. An error reveals that another field has the name, but not whether it
 * was deleted
 * @throws HttpError 403 if the resource has too many custom fields, 400 if they would be too large, 409 if the name is taken
 */
export async function createCustomField(
  tables: Tables,
  actor: Actor,
  { organization, resource, name }: FieldKey,
  options: CustomFieldOptions,
  isVisible: (field: CustomField) => boolean = () => true,
): Promise<void> {
  // Serializes the creation of custom fields in the organization, so that the limit holds.
  await lockOrganization(tables, organization);
  const existing = (await listCustomFields(tables, organization)).filter(
    (field) => field.resource === resource,
  );
  const same = existing.find((field) => field.name === name);
  if (same !== undefined) throw errors.customFieldExists(name, same.deletedAt !== null && isVisible(same));
  if (existing.length >= maxFields) throw errors.quotaExceeded(maxFields, 'customFields', resource);
  const columns = changeableColumns(options);
  await assertOptionsFit(tables, { organization, resource }, Buffer.byteLength(columns.options));
  const { id } = await tables
    .insertInto('crm_custom_fields')
    .values({
      organization_id: organization,
      resource,
      name,
      type: options.type,
      ...columns,
      deleted_at: null,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  await record(tables, actor, organization, 'create', id);
}

/** Locks an organization until the end of the transaction, so that limits of its custom fields hold. */
const lockOrganization = (tables: Tables, organization: string) =>
  sql`select from crm_organizations where id = ${organization}::bigint for no key update`.execute(tables);

/**
 * Checks the limit for the properties of a resource's custom fields.
 * @param added size of the additional properties in bytes
 * @throws HttpError 400 if the properties would be too large
 */
async function assertOptionsFit(
  tables: Tables,
  { organization, resource }: Omit<FieldKey, 'name'>,
  added: number,
): Promise<void> {
  const { bytes } = await tables
    .selectFrom('crm_custom_fields')
    .select(sql<string>`coalesce(sum(octet_length(options)), 0)`.as('bytes'))
    .where('organization_id', '=', organization)
    .where('resource', '=', resource)
    .executeTakeFirstOrThrow();
  if (Number(bytes) + added > maxOptionsBytes) throw errors.customFieldsTooLarge(maxOptionsBytes, resource);
}

/**
 * Changes the properties of a custom field, if it exists. Values that are already stored are not checked again.
 * @throws HttpError 400 if the resource's custom fields would be too large
 */
export async function changeCustomField(
  tables: Tables,
  actor: Actor,
  organization: string,
  id: string,
  options: CustomFieldOptions,
): Promise<void> {
  await lockOrganization(tables, organization);
  const columns = changeableColumns(options);
  const field = await tables
    .selectFrom('crm_custom_fields')
    .select(['resource', 'options'])
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .executeTakeFirst();
  if (field === undefined) return;
  const added = Buffer.byteLength(columns.options) - Buffer.byteLength(field.options);
  if (added > smallChangeBytes)
    await assertOptionsFit(tables, { organization, resource: field.resource }, added);
  await tables
    .updateTable('crm_custom_fields')
    .set(columns)
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .execute();
  await record(tables, actor, organization, 'update', id);
}

/** Deletes a custom field, or restores it, if it exists. Its values are deleted later (see `retention.ts`). */
export async function setDeleted(
  tables: Tables,
  actor: Actor,
  organization: string,
  id: string,
  isDeleted: boolean,
): Promise<void> {
  const field = await tables
    .updateTable('crm_custom_fields')
    .set({ deleted_at: isDeleted ? sql`now()` : null })
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst();
  if (field === undefined) return;
  await record(tables, actor, organization, isDeleted ? 'delete' : 'restore', id);
}
