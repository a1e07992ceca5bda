import type { SchemaPart, TableShape, TableShapes } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import { type Field, fieldColumns } from '../fields/index.ts';
import { distinctionOf, namesOf } from '../records/index.ts';
import { literal, quote } from '../sql/index.ts';
import { type Api, type ApiField, removedValues } from './api.ts';
import { convertField, defaultOf } from './conversions.ts';
import type { Renames } from './stored.ts';
import { linkOf, storedType } from './stored-types.ts';

/** A check for values that a change does not preserve. */
export interface ConversionCheck {
  /** The field, for example `leads.score`. */
  readonly name: string;
  /** Completes "leads.score … in 3 records". */
  readonly says: string;
  /** Condition for the affected records, in the tables before the change. */
  readonly where: string;
  /** The table's name before the change. */
  readonly table: string;
  /** The column with example values, by its name before the change. Undefined for new and sensitive fields. */
  readonly shown: string | undefined;
  /** Whether the migration fails if there are such records. */
  readonly refuses: boolean;
}

/** The statements and checks that convert stored values. */
export interface ConversionChecks {
  readonly statements: readonly string[];
  readonly checks: readonly ConversionCheck[];
  /** The tables after these statements. */
  readonly tables: TableShapes;
}

/** SQLSTATE of a migration that fails because of stored values. */
export const guardSqlState = 'CRM01';

/** The model before the change. */
export interface PreviousState {
  /** Tables with their new names. */
  readonly tables: TableShapes;
  readonly renamed: Renames;
  readonly api: Api;
}

/** The names of a field's table and columns. */
interface Names {
  readonly table: string;
  readonly columns: readonly string[];
}

/**
 * Returns statements and checks for fields whose type, length, values or nullability change.
 * @param instead SQL expressions of type text that replace values that do not fit, by field name
 */
export function conversionChecks(
  before: PreviousState,
  after: TableShapes,
  definitions: readonly ResourceDefinition[],
  instead: ReadonlyMap<string, string>,
): ConversionChecks {
  const statements: string[] = [];
  const checks: ConversionCheck[] = [];
  const tables: Record<string, TableShape> = { ...before.tables };
  for (const definition of definitions) {
    const wanted = after[definition.name];
    if (tables[definition.name] === undefined || wanted === undefined) continue;
    for (const field of [...definition.fields, ...definition.retired]) {
      const stored = tables[definition.name] as TableShape;
      const change = changeOfField(before, { definition, field, stored, wanted }, instead);
      if (change === undefined) continue;
      statements.push(...change.statements);
      checks.push(...change.checks);
      tables[definition.name] = change.stored ?? stored;
    }
    for (const change of duplicates(before, definition, instead)) {
      statements.push(...change.statements);
      checks.push(...change.checks);
    }
  }
  return { statements, checks, tables };
}

/** A field with its table before and after the change. */
interface Subject {
  readonly definition: ResourceDefinition;
  readonly field: Field;
  readonly stored: TableShape;
  readonly wanted: TableShape;
}

interface FieldChange {
  readonly statements: readonly string[];
  readonly checks: readonly ConversionCheck[];
  readonly stored?: TableShape;
}

/** Returns the former names of a table and a column. */
function formerly(before: PreviousState, table: string, column: string): { table: string; column: string } {
  const find = (names: Readonly<Record<string, string>> = {}, name: string) =>
    Object.entries(names).find(([, to]) => to === name)?.[0] ?? name;
  return {
    table: find(before.renamed.tables, table),
    column: find(before.renamed.columns?.[table], column),
  };
}

function changeOfField(
  before: PreviousState,
  { definition, field, stored, wanted }: Subject,
  instead: ReadonlyMap<string, string>,
): FieldChange | undefined {
  const columns = fieldColumns(field);
  const [first] = columns;
  if (first === undefined || field.set !== undefined) return undefined;
  const column = stored.columns[first.name];
  const next = wanted.columns[first.name] as SchemaPart;
  const name = `${definition.name}.${field.name}`;
  const given = instead.get(name);
  const add = { before, definition, field, name, given };
  if (column === undefined)
    return given === undefined && (next.nullable || next.default !== null)
      ? undefined
      : newField(add, stored, next);
  const former = formerly(before, definition.name, field.name);
  const known: ApiField | undefined = before.api[former.table]?.fields[former.column];
  const from = known?.type ?? storedType(stored, field.name);
  const isLink = (shape: TableShape) => linkOf(shape, field.name) !== undefined;
  if (column.type !== next.type || isLink(stored) !== isLink(wanted)) {
    return conversion(add, { stored, wanted, from });
  }
  const bounds: FieldChange[] = [];
  if (column.nullable && !next.nullable) {
    const value = given === undefined ? defaultOf(field) : `(${given})::${first.type}`;
    bounds.push(
      bounded(
        add,
        'has no value',
        ({ columns: [own = ''] }) => `${quote(own)} is null`,
        value,
        value === undefined,
      ),
    );
  }
  const [limit, was] = [field.maxLength, known?.max_length ?? Number.POSITIVE_INFINITY];
  if (limit !== undefined && known !== undefined && limit < was) {
    const value = given === undefined ? undefined : `(${given})::text`;
    const where = ({ columns: [own = ''] }: Names) => `length(${quote(own)}) > ${limit}`;
    bounds.push(bounded(add, `is longer than ${limit} characters`, where, value, true));
  }
  const gone = known && field.values?.closed ? removedValues(known, { enum: field.values.list }) : [];
  if (gone.length > 0) {
    const where = ({ columns: [own = ''] }: Names) => `${quote(own)} in (${gone.map(literal).join(', ')})`;
    const value = given === undefined ? undefined : `(${given})::text`;
    bounds.push(bounded(add, 'has a value that is no longer listed', where, value, true));
  }
  return bounds.length === 0
    ? undefined
    : {
        statements: bounds.flatMap((each) => each.statements),
        checks: bounds.flatMap((each) => each.checks),
      };
}

interface Adding {
  readonly before: PreviousState;
  readonly definition: ResourceDefinition;
  readonly field: Field;
  readonly name: string;
  readonly given: string | undefined;
}

/** Returns a check with the statements that handle it. @param value SQL of the replacement value */
function bounded(
  adding: Adding,
  says: string,
  where: (names: Names) => string,
  value: string | undefined,
  refuses: boolean,
): FieldChange {
  const { definition, field } = adding;
  const names = { table: definition.name, columns: [field.name] };
  const update =
    value === undefined
      ? []
      : [`update ${quote(names.table)} set ${quote(field.name)} = ${value} where ${where(names)};`];
  const check = checkOf(adding, says, where, refuses && value === undefined);
  // Replacement values can be invalid too.
  const guards = refuses ? [conversionGuard(names.table, adding.name, says, where(names))] : [];
  return { statements: [...update, ...guards], checks: [check] };
}

function checkOf(
  { before, definition, field, name }: Adding,
  says: string,
  where: (names: Names) => string,
  refuses: boolean,
  suffixes: readonly string[] = [''],
): ConversionCheck {
  const { table } = formerly(before, definition.name, field.name);
  const columns = suffixes.map(
    (suffix) => formerly(before, definition.name, `${field.name}${suffix}`).column,
  );
  const shown = field.sensitive ? undefined : columns[0];
  return { name, says, where: where({ table, columns }), table, shown, refuses };
}

/** Adds a field that is required, or that gets a value in existing records. */
function newField(adding: Adding, stored: TableShape, next: SchemaPart): FieldChange {
  const { definition, field, given, name } = adding;
  if (given === undefined) {
    const says = 'is required but has no value';
    return {
      statements: [conversionGuard(definition.name, name, says, 'true')],
      checks: [{ ...checkOf(adding, says, () => 'true', true), shown: undefined }],
    };
  }
  const [column] = fieldColumns(field);
  const collation = column?.collation === undefined ? '' : ` collate ${quote(column.collation)}`;
  const value = `((${given})::${column?.type})`;
  const table = quote(definition.name);
  const own = quote(field.name);
  const rule = next.nullable ? '' : ' not null';
  const statements = [`alter table ${table} add ${own} ${column?.type}${collation}${rule} default ${value};`];
  // A default of the field replaces this one.
  if (next.default === null) statements.push(`alter table ${table} alter column ${own} drop default;`);
  const added = { ...next, default: next.default === null ? null : value };
  return {
    statements,
    checks: [],
    stored: { ...stored, columns: { ...stored.columns, [field.name]: added } },
  };
}

/** Types that can represent every value of another type. */
const wider: Readonly<Record<string, readonly string[]>> = {
  integer: ['int64', 'number', 'string', 'text'],
  int64: ['number', 'string', 'text'],
  reference: ['int64', 'number', 'string', 'text'],
};
const isWider = (from: string, to: string): boolean =>
  to === 'string' || to === 'text' || wider[from]?.includes(to) === true;

/** Converts values to another type. */
function conversion(
  adding: Adding,
  {
    stored,
    wanted,
    from,
  }: { readonly stored: TableShape; readonly wanted: TableShape; readonly from: string },
): FieldChange {
  const { definition, field, given } = adding;
  const table = quote(definition.name);
  const suffixes = stored.columns[`${field.name}_offset`] && from === 'timestamp' ? ['', '_offset'] : [''];
  const names = { table: definition.name, columns: suffixes.map((suffix) => `${field.name}${suffix}`) };
  // Broken references are found by a query, so that they have to be replaced first.
  const isLinked = field.to !== undefined;
  const of = ({ table: name, columns }: Names, replacement: string | undefined) =>
    convertField(field, from, columns.map(quote), `${quote(name)}."organization_id"`, replacement);
  const lost = (replacement: string | undefined) => (where: Names) => {
    const { isNone, fits } = of(where, replacement);
    const isLost = `not coalesce((${fits}), false)`;
    return defaultOf(field) === undefined ? `((${isNone}) or ${isLost})` : `(not (${isNone}) and ${isLost})`;
  };
  const { wanted: word, isNone, columns: values } = of(names, isLinked ? undefined : given);
  const says = `is not ${word}`;
  const isSafe = isWider(from, field.typeName) && (defaultOf(field) !== undefined || isWider(from, 'string'));
  const checked = !isSafe || defaultOf(field) === undefined;
  const storedType = String(stored.columns[field.name]?.type);
  const own = quote(field.name);
  const isNullable = stored.columns[field.name]?.nullable === true;
  const alters = [`alter column ${own} drop default`];
  if (field.nullable && !isNullable) alters.push(`alter column ${own} drop not null`);
  const statements = [`alter table ${table} ${alters.join(', ')};`];
  if (isLinked && given !== undefined) {
    const replaced = `${quote(field.name)} = (${given})::${storedType === 'text' ? 'text' : 'bigint'}`;
    statements.push(`update ${table} set ${replaced} where ${lost(undefined)(names)};`);
  }
  if (checked) {
    statements.push(
      conversionGuard(definition.name, adding.name, says, lost(isLinked ? undefined : given)(names)),
    );
  }
  const shape = {
    columns: { ...stored.columns },
    indexes: { ...stored.indexes },
    foreignKeys: { ...stored.foreignKeys },
  };
  for (const column of names.columns) {
    const link = linkOf(stored, column)?.name;
    if (link !== undefined) {
      statements.push(`alter table ${table} drop constraint ${quote(link)};`);
      delete shape.foreignKeys[link];
    }
  }
  for (const [index, { expression }] of Object.entries(stored.indexes)) {
    if (!names.columns.some((column) => String(expression).includes(quote(column)))) continue;
    statements.push(`drop index ${quote(index)};`);
    delete shape.indexes[index];
  }
  const columns = fieldColumns(field);
  for (const { name, type, collation } of columns.slice(1)) {
    if (shape.columns[name] === undefined) {
      statements.push(`alter table ${table} add ${quote(name)} ${type}${collate(collation)};`);
    }
  }
  if (storedType !== wanted.columns[field.name]?.type) {
    const none = defaultOf(field) ?? 'null';
    const types = columns.map(({ name, type, collation }, index) => {
      const value = `case when ${isNone} then ${index === 0 ? `(${none})::${type}` : 'null'} else ${values[index]} end`;
      return `alter column ${quote(name)} type ${type}${collate(collation)} using (${value})`;
    });
    statements.push(`alter table ${table} ${types.join(', ')};`);
  } else if (!field.nullable && defaultOf(field) !== undefined) {
    statements.push(`update ${table} set ${own} = ${defaultOf(field)} where ${own} is null;`);
  }
  for (const column of names.columns.slice(1)) {
    if (wanted.columns[column] !== undefined) continue;
    // The text in the first column now includes its value.
    statements.push(`alter table ${table} drop column ${quote(column)};`);
    delete shape.columns[column];
  }
  for (const [index, { name }] of columns.entries()) {
    const next = wanted.columns[name] as SchemaPart;
    shape.columns[name] = { ...next, default: null, nullable: index > 0 || isNullable || field.nullable };
  }
  const check = checkOf(adding, says, lost(given), true, suffixes);
  return { statements, checks: checked ? [check] : [], stored: { ...stored, ...shape } };
}

const collate = (collation: string | undefined): string =>
  collation === undefined ? '' : ` collate ${quote(collation)}`;

/** Returns a statement that fails the migration if records match a condition. */
export function conversionGuard(table: string, name: string, says: string, where: string): string {
  const body = `declare lost bigint; ids text; begin
  select count(*) into lost from ${quote(table)} where ${where};
  if lost > 0 then
    select string_agg(shown, ', ') into ids from (select "id" || ' of organization ' || "organization_id" as shown from ${quote(table)} where ${where} order by "organization_id", "id" limit 10) s;
    raise exception using errcode = '${guardSqlState}', message = ${literal(`${name} ${says} in `)} || lost || case lost when 1 then ' record' else ' records' end || ', for example ' || ids;
  end if;
end`;
  return `do $check$ ${body} $check$;`;
}

/** Finds duplicate values of fields that become unique. */
function duplicates(
  before: PreviousState,
  { name, fields, uniques }: ResourceDefinition,
  instead: ReadonlyMap<string, string>,
): FieldChange[] {
  const [anyField] = fields;
  if (anyField === undefined) return [];
  const { table } = formerly(before, name, anyField.name);
  const known = before.api[table];
  if (known === undefined) return [];
  return uniques.flatMap((unique) => {
    const own = namesOf(unique);
    const columns = own.map((field) => formerly(before, name, field).column);
    const isStored = own.every((field) => before.tables[name]?.columns[field] !== undefined);
    if (!isStored || known.unique.some((each) => each.join() === columns.join())) return [];
    const where = (names: Names): string => {
      const distinctions = unique.map((field, index) =>
        distinctionOf(field, quote(names.columns[index] ?? '')),
      );
      const keys = ['"organization_id"', ...distinctions.flatMap((each) => each.keys)].join(', ');
      const filled = distinctions.map((each) => each.presence).join(' and ');
      return `${filled} and (${keys}) in (select ${keys} from ${quote(names.table)} where ${filled} group by ${keys} having count(*) > 1)`;
    };
    const now = where({ table: name, columns: own });
    const label = `${name}.${own.join('+')}`;
    const says = 'has a duplicate value';
    const given = instead.get(label);
    const [first] = unique;
    const update =
      given === undefined
        ? []
        : [`update ${quote(name)} set ${quote(first.name)} = (${given})::text where ${now};`];
    return [
      {
        statements: [...update, conversionGuard(name, label, says, now)],
        checks: [
          {
            name: label,
            says,
            where: where({ table, columns }),
            table,
            shown: first.sensitive ? undefined : columns[0],
            refuses: given === undefined,
          },
        ],
      },
    ];
  });
}
