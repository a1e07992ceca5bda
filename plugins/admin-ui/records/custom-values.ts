import type { Resource, ResourceView } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { customName, type Field, hasCustomFields } from '../../../engine/fields/index.ts';
import { type Query, withCustomFilters } from '../../../engine/query/index.ts';
import {
  type Body,
  type ChangeValues,
  type CustomFields,
  type Grants,
  organizationCustomFields,
  type RecordValues,
  visibleCustomFields,
} from '../../../engine/records/index.ts';
import type { Membership } from '../../access/identity/index.ts';

/** Views with the custom fields of organizations. Organizations without custom fields share the original view. */
const views = new WeakMap<ResourceView, WeakMap<readonly Field[], ResourceView>>();

/**
 * Returns a view in which each custom field of the organization is a field, for example `custom.score`. It replaces the field
 * that contains their values, so that forms, lists and pages treat custom fields like all others.
 * @param grants the grants of the view
 */
export function withCustomFields(
  view: ResourceView,
  customFields: CustomFields | undefined,
  grants: Grants,
): ResourceView {
  if (!hasCustomFields(view.definition)) return view;
  const fields = visibleCustomFields(customFields?.get(view.name) ?? [], view.definition, grants);
  const byFields = views.get(view) ?? new WeakMap<readonly Field[], ResourceView>();
  views.set(view, byFields);
  const cached = byFields.get(fields);
  if (cached !== undefined) return cached;
  const definition = {
    ...withCustomFilters(view.definition, fields),
    fields: view.definition.fields.flatMap((field) => (field.type.custom === true ? fields : [field])),
  };
  const extended = Object.create(view, { definition: { value: definition } }) as ResourceView;
  byFields.set(fields, extended);
  return extended;
}

/** Returns the custom fields in a view, with their keys. */
const ownFields = ({ definition }: ResourceView): readonly (readonly [key: string, name: string])[] =>
  definition.fields.flatMap(({ name, custom }) =>
    custom === undefined ? [] : [[custom.key, name] as const],
  );

/** Returns a record with a property for each custom field of the view. */
export function withOwnValues<Values extends RecordValues>(view: ResourceView, record: Values): Values {
  const { [customName]: custom, ...others } = record;
  const fields = ownFields(view);
  if (custom === undefined || fields.length === 0) return record;
  const values = custom as Readonly<Record<string, unknown>> | null;
  const own = fields.map(([key, name]) => [name, values?.[key] ?? null]);
  return { ...others, ...Object.fromEntries(own) } as Values;
}

/** Returns the views of all resources, with the custom fields of the member's organization, in the order of the resources. */
export async function resourceViewsOf(
  { database, resources }: { readonly database: Database; readonly resources: readonly Resource[] },
  { organization, grants }: Pick<Membership, 'organization' | 'grants'>,
): Promise<readonly ResourceView[]> {
  const customFields = await organizationCustomFields(database, resources, organization);
  return resources.map((resource) => withCustomFields(resource.viewFor(grants), customFields, grants));
}

/** Returns a change with the custom fields of the view in its records and its list of changed fields. */
export function changeWithOwnValues(view: ResourceView, change: ChangeValues): ChangeValues {
  const before = change.before && withOwnValues(view, change.before);
  const after = change.after && withOwnValues(view, change.after);
  const changed = change.changed.flatMap((name) =>
    name === customName
      ? ownFields(view).flatMap(([, own]) =>
          JSON.stringify(before?.[own] ?? null) === JSON.stringify(after?.[own] ?? null) ? [] : [own],
        )
      : [name],
  );
  return { ...change, before, after, changed };
}

/** Returns a body in which the values of custom fields are in one object, as the API expects. Empty texts are null. */
export function nestedBody(view: ResourceView, body: Body): Body {
  const fields = ownFields(view).filter(([, name]) => body[name] !== undefined);
  if (fields.length === 0) return body;
  const names = new Set(fields.map(([, name]) => name));
  const others = Object.entries(body).filter(([name]) => !names.has(name));
  const custom = fields.map(([key, name]) => [key, body[name] === '' ? null : body[name]]);
  return { ...Object.fromEntries(others), [customName]: Object.fromEntries(custom) };
}

/** Returns a query whose `fields` name the field that contains the values instead of custom fields. */
export function nestedQuery(view: ResourceView, query: Query): Query {
  const { fields } = query;
  const names = new Set(ownFields(view).map(([, name]) => name));
  if (typeof fields !== 'string' || names.size === 0) return query;
  const nested = fields.split(',').map((name) => (names.has(name) ? customName : name));
  return { ...query, fields: [...new Set(nested)].join() };
}
