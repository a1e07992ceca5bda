import type { Prepared, Statement } from '../compile/index.ts';
import type { CreatePlan, ListPlan, RecordPlan, ReplacePlan, WritePlan } from './plan.ts';

/** The statement of a GET or DELETE of one record. */
export function recordStatement({ kind, resource, organization, id }: RecordPlan): Statement {
  const { name, text } = resource.statements[kind];
  return { name, text, values: [organization, id] };
}

/** The statement of a POST. */
export function createStatement({ resource, organization, user, values }: CreatePlan): Statement {
  const { name, text, usesCaller } = resource.statements.create;
  return { name, text, values: usesCaller ? [organization, user, ...values] : [organization, ...values] };
}

/** The statement of a PUT. */
export function replaceStatement({ resource, organization, id, user, values }: ReplacePlan): Statement {
  const { name, text, usesCaller } = resource.statements.replace;
  return {
    name,
    text,
    values: usesCaller ? [organization, id, user, ...values] : [organization, id, ...values],
  };
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
