import { CompiledQuery, sql } from 'kysely';
import type { Body, Resource, Statement } from '../engine/compile/index.ts';
import { note, type Platform } from '../engine/platform/index.ts';
import { createPlan, createStatement, type Principal } from '../engine/request/index.ts';

/** Who partners' records are made by, as the activity names them. */
export interface Partner {
  /** Name of the endpoint. */
  readonly name: string;
  readonly organization: string;
  readonly requestId: string;
}

const principal = ({ organization }: Partner): Principal => ({
  kind: 'partner',
  actor: null,
  organization,
  user: null,
  grants: {},
});

const find = (resources: readonly Resource[], name: string): Resource => {
  const resource = resources.find((each) => each.name === name);
  if (resource === undefined) throw new Error(`this instance declares no ${name}`);
  return resource;
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
  const resource = find(resources, name);
  const plan = createPlan(resource, body, {
    principal: principal(by),
    requestId: by.requestId,
    query: {},
    strict: false,
  });
  const { rows } = await run(tables, createStatement(plan));
  return String(rows[0]?.id);
}

const run = (tables: Platform, { text, values }: Statement) =>
  tables.executeQuery<{ id: string }>(CompiledQuery.raw(text, [...values]));

/**
 * Writes fields of a record that callers may not write, or some of several; the others stay as they are.
 * @param fields text fields by name
 */
export async function fillRecord(
  tables: Platform,
  by: Partner,
  name: string,
  id: string,
  fields: Readonly<Record<string, string>>,
  noted: boolean,
): Promise<void> {
  const entries = Object.entries(fields);
  if (entries.length === 0) return;
  const set = sql.join([
    ...entries.map(([field, value]) => sql`${sql.ref(field)} = ${value}::text`),
    sql`updated_at = now()`,
  ]);
  await sql`update ${sql.table(name)} set ${set}
    where organization_id = ${by.organization}::bigint and id = ${id}::bigint`.execute(tables);
  await noteUpdate(tables, by, name, id, noted);
}

const noteUpdate = (tables: Platform, by: Partner, object: string, objectId: string, noted: boolean) =>
  note(
    tables,
    { kind: 'partner', id: null, requestId: by.requestId, noted },
    { organization: by.organization, action: 'update', object, objectId },
  );

/** States in which a lead is done with. */
const closed = 'Closed - ';
export const converted = 'Closed - Converted';

/** What a payment tells of its lead; blank parts are not looked for. */
export interface LeadTraits {
  readonly id: string;
  readonly email: string;
  readonly phone: string;
}

/** A phone number's digits, international: "+1 (555) 010-0" and "00155 5010 0" are the same. */
const digits = (phone: string): string => phone.replace(/\D/g, '').replace(/^00/, '');

/**
 * Finds the lead that a payment is for and locks it: by id, else by e-mail without case, else by phone;
 * open ones first, newest first.
 */
export async function findLead(
  tables: Platform,
  organization: string,
  { id, email, phone }: LeadTraits,
): Promise<string | undefined> {
  const number = digits(phone);
  const conditions = [
    ...(/^[1-9]\d{0,17}$/.test(id) ? [sql<boolean>`id = ${id}::bigint`] : []),
    ...(email === '' ? [] : [sql<boolean>`lower(email) = ${email.toLowerCase()}::text`]),
    ...(number.length < 7
      ? []
      : [sql<boolean>`regexp_replace(regexp_replace(phone, '\\D', '', 'g'), '^00', '') = ${number}::text`]),
  ];
  for (const condition of conditions) {
    const { rows } = await sql<{ id: string }>`select id::text from leads
      where organization_id = ${organization}::bigint and ${condition}
      order by starts_with(status, ${closed}::text), created_at desc, id desc limit 1 for update`.execute(
      tables,
    );
    if (rows[0] !== undefined) return rows[0].id;
  }
  return undefined;
}

/** Marks a lead as converted. */
export async function convertLead(tables: Platform, by: Partner, id: string, noted: boolean): Promise<void> {
  await sql`update leads set status = ${converted}::text, updated_at = now(), last_modified_by_id = null
    where organization_id = ${by.organization}::bigint and id = ${id}::bigint`.execute(tables);
  await noteUpdate(tables, by, 'leads', id, noted);
}
