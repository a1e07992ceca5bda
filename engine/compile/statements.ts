import type { Field, ResourceDefinition, ServerValue } from '../definition/index.ts';
import { head, lookups } from '../fields/index.ts';
import type { Action } from './access.ts';
import { columnsOf, literal, type Prepared, quote } from './sql.ts';

/** Records on one page of a list (contract section 8). */
export const pageSize = 20;
/** From this page on a list finds its keys in the index first and fetches only the rows it shows. */
export const deepPage = 6;

/** How a list is asked: which order, which filters, how deep. */
export interface ListShape {
  readonly sort: Field;
  readonly direction: 'asc' | 'desc';
  /** Filters in use, in the definition's order; `many` for "any of them". */
  readonly filters: readonly { readonly field: Field; readonly many: boolean }[];
  readonly depth: 'first' | 'shallow' | 'deep';
}

/**
 * The statements of one resource. Each is bound to one organization by its first parameter. Where activity is
 * noted, those that write end with three more parameters: the actor's kind and id, and the request's id.
 */
export interface Statements {
  /** $1 organization, $2 id. One row, one column: the record as JSON. */
  readonly read: Prepared;
  /** $1 organization, $2 the caller's user if `usesCaller`, then the writable columns. Record as JSON, id. */
  readonly create: Prepared & { readonly usesCaller: boolean };
  /** $1 organization, $2 id, $3 the caller's user if `usesCaller`, then the writable columns. Record as JSON, id. */
  readonly replace: Prepared & { readonly usesCaller: boolean };
  /** $1 organization, $2 id. One row if it was there. */
  readonly delete: Prepared;
  /** $1 organization, then each reference's id: for each reference "true" where no such record exists. */
  readonly missingReferences: Prepared | undefined;
  /** $1 organization, then the filters' values, then the offset unless the first page. Records as JSON, comma between. */
  readonly list: (shape: ListShape) => Prepared;
  /**
   * Writes some fields, read-only ones too; for the instance's own endpoints. $1 organization, $2 id, $3 the caller's
   * user if `usesCaller`, then the fields' columns. Where `silent`, activity does not note it. One row if the record
   * was there.
   */
  readonly patch: (fields: readonly Field[], silent: boolean) => Prepared & { readonly usesCaller: boolean };
  /**
   * Finds a record and locks it. $1 organization, $2 the field's value; with `last`, $3 is a list, and records whose
   * field `last` is in it come only after all others. Newest first. One row at most: the id.
   */
  readonly find: (by: Field, last?: Field) => Prepared;
}

// Names of YAML begin with a letter: those of the statements' own parts that may meet them do not.
const table = 't';
const own = (field: Field) => `${table}.${quote(field.name)}`;
const bound = `${table}."organization_id" = $1::bigint`;

/** What the server writes where: SQL, with the placeholder of the caller's user. */
const serverValues: Readonly<Record<ServerValue, { create?: string; replace?: string }>> = {
  id: {},
  organization: { create: '$1::bigint' },
  creator: { create: 'caller' },
  editor: { create: 'caller', replace: 'caller' },
  created: { create: 'now()' },
  updated: { create: 'now()', replace: 'now()' },
};

/** Compiles a resource's SQL. Nothing of a request is in the text, only in the parameters. */
export function statements(
  definition: ResourceDefinition,
  all: readonly ResourceDefinition[],
  noted: boolean,
): Statements {
  const { name, fields } = definition;
  const target = quote(name);
  const { columns, joins } = projection(definition, all);
  const note = (action: Action, parameters: number) => (noted ? activity(name, action, parameters) : '');
  const record = (source: string) =>
    `select row_to_json(_r)::text, _r."id"::text from (select ${columns} from ${source} ${table}${joins}) _r`;
  const identified = `${bound} and ${table}."id" = $2::bigint`;
  const create = assignments(fields, 'create', 2);
  const replace = assignments(fields, 'replace', 3);

  return {
    read: {
      name: `${name}_read`,
      text: `select row_to_json(_r)::text from (select ${columns} from ${target} ${table}${joins} where ${identified}) _r`,
    },
    create: {
      name: `${name}_create`,
      usesCaller: create.usesCaller,
      text: `with _written as (insert into ${target} (${create.columns.join(', ')}) values (${create.values.join(', ')}) returning *)${note('create', create.parameters)} ${record('_written')}`,
    },
    replace: {
      name: `${name}_replace`,
      usesCaller: replace.usesCaller,
      text: `with _written as (update ${target} ${table} set ${setClause(replace)} where ${identified} returning ${table}.*)${note('update', replace.parameters)} ${record('_written')}`,
    },
    delete: {
      name: `${name}_delete`,
      text: `with _written as (delete from ${target} ${table} where ${identified} returning "organization_id", "id")${note('delete', 2)} select 1 from _written`,
    },
    missingReferences: missingReferences(definition),
    list: once(
      `${name}_list`,
      (shape: ListShape) =>
        `${shape.sort.name} ${shape.direction} ${shape.depth} ${shape.filters.map(({ field, many }) => `${field.name}${many ? '*' : ''}`).join(',')}`,
      (shape) => listText(definition, shape, columns, joins),
    ),
    patch: (chosen, silent) => patch(definition, chosen, silent ? undefined : note),
    find: (by, last) => ({ name: '', text: findText(definition, by, last) }),
  };
}

/** Notes in the organization's activity what a statement has written, in the statement itself. */
function activity(object: string, action: Action, parameters: number): string {
  const [kind, actor, request] = [1, 2, 3].map((next) => `$${parameters + next}`);
  return `, _noted as (insert into "crm_activity" ("organization_id", "actor_kind", "actor_id", "action", "object", "object_id", "request_id") select "organization_id", ${kind}::text, ${actor}::bigint, ${literal(action)}, ${literal(object)}, "id", ${request}::text from _written)`;
}

/** The record as columns named like its fields, and the joins that joined fields need. */
function projection(definition: ResourceDefinition, all: readonly ResourceDefinition[]) {
  const links = new Map<string, string>();
  const columns = definition.fields.map((field) => {
    if (field.through === undefined) {
      const sql = field.type.read?.(own(field), field) ?? own(field);
      return `${sql} as ${quote(field.name)}`;
    }
    const link = definition.fields.find((other) => other.name === field.through);
    const other = all.find((one) => one.name === link?.to);
    if (link === undefined || other === undefined) throw new Error(`${field.name} follows no reference`);
    const alias = quote(`via_${link.name}`);
    links.set(
      link.name,
      ` left join ${quote(other.name)} ${alias} on ${alias}."organization_id" = ${table}."organization_id" and ${alias}."id" = ${own(link)}`,
    );
    return `${shown(field, link, other, definition, alias)} as ${quote(field.name)}`;
  });
  return { columns: columns.join(', '), joins: [...links.values()].join('') };
}

/** The text that a joined field shows: one field as it is, several with one space between, trimmed. */
function shown(
  field: Field,
  link: Field,
  other: ResourceDefinition,
  definition: ResourceDefinition,
  alias: string,
): string {
  const parts = (from: string) =>
    (field.show ?? []).map((name) => {
      const text = other.fields.find((one) => one.name === name)?.type.text;
      const column = `${from}.${quote(name)}`;
      // Null where there is no such record, or where that record's field is null.
      return `coalesce(${text?.(column) ?? column}, '')`;
    });
  const joinedText = (from: string) => {
    const texts = parts(from);
    return texts.length === 1 ? (texts[0] ?? "''") : `btrim(${texts.join(` || ' ' || `)})`;
  };
  const there = joinedText(alias);
  // A record that refers to itself must show what this very statement wrote, which the join cannot see yet.
  return other.name === definition.name
    ? `case when ${own(link)} = ${table}."id" then ${joinedText(table)} else ${there} end`
    : there;
}

/** The columns that an INSERT or UPDATE writes and the SQL of their values. */
function assignments(fields: readonly Field[], verb: 'create' | 'replace', firstFree: number) {
  const columns: string[] = [];
  const values: string[] = [];
  const caller = `$${firstFree}::bigint`;
  const usesCaller = fields.some((field) => field.set && serverValues[field.set][verb] === 'caller');
  let next = usesCaller ? firstFree + 1 : firstFree;
  for (const field of fields) {
    const stored = columnsOf(field);
    const value = field.set === undefined ? undefined : serverValues[field.set][verb];
    if (field.readOnly) {
      if (value === undefined) continue;
      columns.push(quote(field.name));
      values.push(value === 'caller' ? caller : value);
    } else {
      const placeholders = stored.map((column, index) => ({ column, text: `$${next + index}` }));
      next += stored.length;
      const plain = placeholders.map(({ column, text }) => `${text}::text::${column.type}`);
      columns.push(...stored.map((column) => quote(column.name)));
      values.push(...(field.type.assign?.(placeholders.map(({ text }) => text)) ?? plain));
    }
  }
  return { columns, values, usesCaller, parameters: next - 1 };
}

function setClause({ columns, values }: { columns: readonly string[]; values: readonly string[] }): string {
  // A resource without anything to write still answers whether the record is there.
  if (columns.length === 0) return '"id" = t."id"';
  return columns.map((column, index) => `${column} = ${values[index]}`).join(', ');
}

/** Which references of a refused write point nowhere. Asked only after the database has refused it. */
function missingReferences({ name, fields }: ResourceDefinition): Prepared | undefined {
  const references = fields.filter((field) => field.type.refers && !field.readOnly);
  if (references.length === 0) return undefined;
  const checks = references.map((field, index) => {
    const id = `$${index + 2}::text::bigint`;
    return `(${id} is not null and not exists (select from ${quote(field.to ?? '')} where "organization_id" = $1::bigint and "id" = ${id}))::text`;
  });
  return { name: `${name}_missing`, text: `select ${checks.join(', ')}` };
}

/** Statements by shape, each made once when it is first asked for. Their number is bounded by the definition. */
function once<Shape>(
  name: string,
  keyOf: (shape: Shape) => string,
  textOf: (shape: Shape) => string,
): (shape: Shape) => Prepared {
  const made = new Map<string, Prepared>();
  return (shape) => {
    const key = keyOf(shape);
    const known = made.get(key);
    if (known !== undefined) return known;
    const prepared = { name: `${name}_${made.size}`, text: textOf(shape) };
    made.set(key, prepared);
    return prepared;
  };
}

function listText({ name }: ResourceDefinition, shape: ListShape, columns: string, joins: string): string {
  const conditions = shape.filters.map(({ field, many }, index) => {
    const compare = many ? field.type.among : field.type.equals;
    return ` and ${compare?.(own(field), `$${index + 2}`)}`;
  });
  const where = `where ${bound}${conditions.join('')}`;
  // The id ends every order: clients walk pages, and equal values are common.
  const keys = [...(shape.sort.type.order?.(own(shape.sort)) ?? []), `${table}."id"`];
  const order = `order by ${keys.map((key) => `${key} ${shape.direction}`).join(', ')}`;
  const offset = shape.depth === 'first' ? '' : ` offset $${shape.filters.length + 2}::bigint`;
  const from = `from ${quote(name)} ${table}`;
  const rows =
    shape.depth === 'deep'
      ? `select ${columns} from (select ${table}."id" ${from} ${where} ${order} limit ${pageSize}${offset}) k join ${quote(name)} ${table} on ${bound} and ${table}."id" = k."id"${joins} ${order}`
      : `select ${columns} ${from}${joins} ${where} ${order} limit ${pageSize}${offset}`;
  return `select string_agg(row_to_json(_r)::text, ',') from (${rows}) _r`;
}

/** {@link Statements.patch}: the server's own fields are written too, unless they are among the chosen. */
function patch(
  { name, fields }: ResourceDefinition,
  chosen: readonly Field[],
  note: ((action: Action, parameters: number) => string) | undefined,
): ReturnType<Statements['patch']> {
  const server = fields.flatMap((field) => {
    const value = field.set && serverValues[field.set].replace;
    return value === undefined || chosen.includes(field) ? [] : [{ field, value }];
  });
  const usesCaller = server.some(({ value }) => value === 'caller');
  let next = usesCaller ? 4 : 3;
  const set = chosen.flatMap((field) => {
    const stored = columnsOf(field).map((column, index) => ({ column, placeholder: `$${next + index}` }));
    next += stored.length;
    const assigned = field.readOnly
      ? undefined
      : field.type.assign?.(stored.map(({ placeholder }) => placeholder));
    return stored.map(
      ({ column, placeholder }, index) =>
        `${quote(column.name)} = ${assigned?.[index] ?? `${placeholder}::text::${column.type}`}`,
    );
  });
  set.push(
    ...server.map(
      ({ field, value }) => `${quote(field.name)} = ${value === 'caller' ? '$3::bigint' : value}`,
    ),
  );
  const update = `update ${quote(name)} ${table} set ${set.join(', ')} where ${bound} and ${table}."id" = $2::bigint`;
  return {
    name: '',
    usesCaller,
    text: `with _written as (${update} returning ${table}."organization_id", ${table}."id")${note?.('update', next - 1) ?? ''} select "id"::text from _written`,
  };
}

/** {@link Statements.find}. */
function findText({ name, fields }: ResourceDefinition, by: Field, last: Field | undefined): string {
  const text = by.lookup === undefined ? undefined : lookups[by.lookup];
  // The column's collation on both sides: what lower() makes of a text depends on it.
  const same = (side: (text: string) => string) => `${side(own(by))} = ${side('$2::text collate "C"')}`;
  const condition =
    text === undefined
      ? by.type.equals?.(own(by), '$2')
      : `${same((sql) => head(text(sql)))} and ${same(text)}`;
  const created = fields.find((field) => field.set === 'created');
  const order = [
    ...(last === undefined ? [] : [`(${own(last)} = any($3::text[])) asc`]),
    ...(created === undefined ? [] : [`${own(created)} desc`]),
    `${table}."id" desc`,
  ];
  return `select ${table}."id"::text as id from ${quote(name)} ${table} where ${bound} and ${condition} order by ${order.join(', ')} limit 1 for update`;
}
