import type { Prepared, Resource, Statement } from '../compile/index.ts';
import type { Field } from '../definition/index.ts';
import type { By, CreatePlan, DeletePlan, ListPlan, ReadPlan, ReplacePlan, WritePlan } from './plan.ts';

/** The statement of a GET of one record. */
export function readStatement({ resource, organization, id }: ReadPlan): Statement {
  const { name, text } = resource.statements.read;
  return { name, text, values: [organization, id] };
}

/** The statement of a DELETE. */
export function deleteStatement({ resource, organization, id, by }: DeletePlan): Statement {
  const { name, text } = resource.statements.delete;
  return { name, text, values: [organization, id, ...activity(resource, by)] };
}

/** The statement of a POST. */
export function createStatement({ resource, organization, by, values }: CreatePlan): Statement {
  const { name, text, usesCaller } = resource.statements.create;
  const caller = usesCaller ? [by.principal.user] : [];
  return { name, text, values: [organization, ...caller, ...values, ...activity(resource, by)] };
}

/** The statement of a PUT. */
export function replaceStatement({ resource, organization, id, by, values }: ReplacePlan): Statement {
  const { name, text, usesCaller } = resource.statements.replace;
  const caller = usesCaller ? [by.principal.user] : [];
  return { name, text, values: [organization, id, ...caller, ...values, ...activity(resource, by)] };
}

/**
 * The statement that writes some fields of a record, read-only ones too; for the instance's own endpoints.
 * @param values by field; a read-only field's as PostgreSQL reads it
 * @param silent not noted in the activity
 */
export function patchStatement(
  resource: Resource,
  by: By,
  id: string,
  values: ReadonlyMap<Field, unknown>,
  silent = false,
): Statement {
  const fields = [...values.keys()];
  const { name, text, usesCaller } = resource.statements.patch(fields, silent);
  const { organization, user } = by.principal;
  const caller = usesCaller ? [user] : [];
  const written = fields.flatMap((field) => {
    const value = values.get(field);
    return field.readOnly ? [String(value)] : (field.type.write?.(value) ?? []);
  });
  const noted = silent ? [] : activity(resource, by);
  return { name, text, values: [organization, id, ...caller, ...written, ...noted] };
}

/**
 * The statement that finds a record by a field and locks it; for the instance's own endpoints.
 * @param last values of a field with which records come only after all others
 */
export function findStatement(
  resource: Resource,
  organization: string,
  by: Field,
  value: string,
  last?: { readonly field: Field; readonly values: readonly string[] },
): Statement {
  const { name, text } = resource.statements.find(by, last?.field);
  return { name, text, values: [organization, value, ...(last === undefined ? [] : [last.values])] };
}

/** Who did it, for statements that note what they write. */
function activity({ noted }: Resource, { principal, requestId }: By): readonly (string | null)[] {
  return noted ? [principal.kind, principal.actor, requestId] : [];
}

/** The statement of a list; undefined where the page is beyond any table, so that there is nothing to ask. */
export function listStatement(plan: ListPlan): Statement | undefined {
  if (plan.offset === undefined) return undefined;
  const { name, text } = plan.resource.statements.list({
    sort: plan.sort,
    direction: plan.direction,
    depth: plan.depth,
    filters: plan.filters.map(({ field, values }) => ({ field, many: values.length > 1 })),
  });
  const filters = plan.filters.map(({ values }) => (values.length > 1 ? values : (values[0] ?? null)));
  const offset = plan.depth === 'first' ? [] : [String(plan.offset)];
  return { name, text, values: [plan.organization, ...filters, ...offset] };
}

/** Asks which references of a refused write point nowhere. */
export function missingReferencesStatement(prepared: Prepared, plan: WritePlan): Statement {
  const ids = plan.resource.references.map(({ position }) => plan.values[position] ?? null);
  return { name: prepared.name, text: prepared.text, values: [plan.organization, ...ids] };
}
