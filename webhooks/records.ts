import type { Body, Resource } from '../engine/compile/index.ts';
import { type Platform, runForId } from '../engine/platform/index.ts';
import {
  type By,
  createPlan,
  createStatement,
  findStatement,
  patchStatement,
} from '../engine/request/index.ts';

/** Who partners' records are made by, as the activity names them. */
export interface Partner {
  readonly organization: string;
  readonly requestId: string;
}

const named = ({ organization, requestId }: Partner): By => ({
  principal: { kind: 'partner', actor: null, organization, user: null, grants: {} },
  requestId,
});

const resourceOf = (resources: readonly Resource[], name: string): Resource => {
  const resource = resources.find((each) => each.name === name);
  if (resource === undefined) throw new Error(`this instance declares no ${name}`);
  return resource;
};

const fieldOf = ({ definition }: Resource, name: string) => {
  const field = definition.fields.find((each) => each.name === name);
  if (field === undefined) throw new Error(`${definition.name} have no ${name}`);
  return field;
};

/**
 * Makes a record as POST would, in a transaction.
 * @returns its id, decimal text
 */
export async function createRecord(
  tables: Platform,
  resources: readonly Resource[],
  by: Partner,
  name: string,
  body: Body,
): Promise<string> {
  const plan = createPlan(resourceOf(resources, name), body, { ...named(by), query: {}, strict: false });
  return String(await runForId(tables, createStatement(plan)));
}

/**
 * Writes some text fields of a record, also those that callers may not write; the others stay as they are.
 * @param silent not noted in the activity: a part of making the record
 */
export async function fillRecord(
  tables: Platform,
  resources: readonly Resource[],
  by: Partner,
  name: string,
  id: string,
  fields: Readonly<Record<string, string>>,
  silent = false,
): Promise<void> {
  const resource = resourceOf(resources, name);
  const values = new Map(Object.entries(fields).map(([field, value]) => [fieldOf(resource, field), value]));
  if (values.size > 0) await runForId(tables, patchStatement(resource, named(by), id, values, silent));
}

/**
 * Finds a record by a field that is declared as a lookup, or by id, and locks it; the newest of several.
 * @param last values of a field with which records come only after all others
 */
export function findRecord(
  tables: Platform,
  resources: readonly Resource[],
  organization: string,
  name: string,
  by: readonly [field: string, value: string],
  last?: readonly [field: string, values: readonly string[]],
): Promise<string | undefined> {
  const resource = resourceOf(resources, name);
  const [field, value] = by;
  const after = last && { field: fieldOf(resource, last[0]), values: last[1] };
  return runForId(tables, findStatement(resource, organization, fieldOf(resource, field), value, after));
}
