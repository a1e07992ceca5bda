import type { SchemaPart, TableShape, TableShapes } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import { type Field, fieldColumns } from '../fields/index.ts';
import { distinctionOf, namesOf } from '../records/index.ts';
import { literal, quote } from '../sql/index.ts';
import { type Api, type ApiField, removedValues } from './api.ts';
import { convertField, defaultOf, isWider, storedSuffixes } from './conversions.ts';
import type { Renames } from './stored.ts';
import { linkOf, storedType } from './stored-types.ts';

/** A check for stored values that a change does not preserve. */
export interface ConversionCheck {
  /** The field's name, for example `leads.score`. */
  readonly name: string;
  /** Completes "leads.score … in 3 records". */
  readonly says: string;
  /** SQL condition that matches the affected records in the tables before the change. */
  readonly where: string;
  /** The table's name before the change. */
  readonly table: string;
  /** The column with example values, by its name before the change. Undefined for new and sensitive fields. */
  readonly exampleColumn: string | undefined;
  /** Whether the migration fails if there are such records. */
  readonly refuses: boolean;
}

/** The statements and checks that convert stored values. */
export interface ConversionChecks {
  /** Statements that fail if values do not fit. They read the tables before the change, so that they run before its locks. */
  readonly guards: readonly string[];
  readonly statements: readonly string[];
  readonly checks: readonly ConversionCheck[];
  /** The tables after these statements. */
  readonly tables: TableShapes;
}

/** SQLSTATE raised by a migration that fails because of stored values. */
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
 * @param instead SQL expressions of type text that replace invalid values, by field name
 */
export function conversionChecks(
  before: PreviousState,
  after: TableShapes,
  definitions: readonly ResourceDefinition[],
  instead: ReadonlyMap<string, string>,
): ConversionChecks {
  const guards: string[] = [];
  const statements: string[] = [];
  const checks: ConversionCheck[] = [];
  const tables: Record<string, TableShape> = { ...before.tables };
  for (const definition of definitions) {
    const target = after[definition.name];
    if (tables[definition.name] === undefined || target === undefined) continue;
    const alteredFields = new Set<string>();
    for (const field of [...definition.fields, ...definition.retired]) {
      const stored = tables[definition.name] as TableShape;
      const change = changeOfField(before, { definition, field, stored, target }, instead);
      if (change === undefined) continue;
      guards.push(...change.guards);
      statements.push(...change.statements);
      checks.push(...change.checks);
      if (change.statements.length > 0) alteredFields.add(field.name);
      tables[definition.name] = change.stored ?? stored;
    }
    for (const change of duplicates(before, definition, instead, alteredFields)) {
      guards.push(...change.guards);
      statements.push(...change.statements);
      checks.push(...change.checks);
    }
  }
  return { guards, statements, checks, tables };
}

/** A field with its table before and after the change. */
interface FieldTables {
  readonly definition: ResourceDefinition;
  readonly field: Field;
  readonly stored: TableShape;
  readonly target: TableShape;
}

interface FieldChange {
  /** Like {@link ConversionChecks.guards}. */
  readonly guards: readonly string[];
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
  { definition, field, stored, target }: FieldTables,
  instead: ReadonlyMap<string, string>,
): FieldChange | undefined {
  const columns = fieldColumns(field);
  const [first] = columns;
  if (first === undefined || field.set !== undefined) return undefined;
  const column = stored.columns[first.name];
  const newColumn = target.columns[first.name] as SchemaPart;
  const name = `${definition.name}.${field.name}`;
  const replacement = instead.get(name);
  const context = { before, definition, field, name, replacement };
  if (column === undefined)
    return replacement === undefined && (newColumn.nullable || newColumn.default !== null)
      ? undefined
      : newField(context, stored, newColumn);
  const former = formerly(before, definition.name, field.name);
  const previousField: ApiField | undefined = before.api[former.table]?.fields[former.column];
  const from = previousField?.type ?? storedType(stored, field.name);
  const isLink = (shape: TableShape) => linkOf(shape, field.name) !== undefined;
  if (column.type !== newColumn.type || isLink(stored) !== isLink(target)) {
    return conversion(context, { stored, target, from });
  }
  const changes: BoundChange[] = [];
  if (column.nullable && !newColumn.nullable) {
    const value = replacement === undefined ? defaultOf(field) : `(${replacement})::${first.type}`;
    changes.push(
      boundChange(
        context,
        'has no value',
        ({ columns: [column = ''] }) => `${quote(column)} is null`,
        value,
        value === undefined,
      ),
    );
  }
  const [limit, previousLimit] = [field.maxLength, previousField?.max_length ?? Number.POSITIVE_INFINITY];
  if (limit !== undefined && previousField !== undefined && limit < previousLimit) {
    const value = replacement === undefined ? undefined : `(${replacement})::text`;
    const where = ({ columns: [column = ''] }: Names) => `length(${quote(column)}) > ${limit}`;
    changes.push(boundChange(context, `is longer than ${limit} characters`, where, value, true));
  }
  const removed =
    previousField && field.values?.closed ? removedValues(previousField, { enum: field.values.list }) : [];
  if (removed.length > 0) {
    const where = ({ columns: [column = ''] }: Names) =>
      `${quote(column)} in (${removed.map(literal).join(', ')})`;
    const value = replacement === undefined ? undefined : `(${replacement})::text`;
    changes.push(boundChange(context, 'has a value that is no longer listed', where, value, true));
  }
  if (changes.length === 0) return undefined;
  const checks = changes.map(({ check }) => check);
  const updates = changes.some(({ update }) => update !== undefined);
  // A guard checks replacement values too, so it has to run after the update.
  if (updates)
    return {
      guards: [],
      statements: changes.flatMap(({ update, guard }) => [update, guard].flatMap((sql) => sql ?? [])),
      checks,
    };
  return { guards: changes.flatMap(({ formerGuard }) => formerGuard ?? []), statements: [], checks };
}

interface FieldContext {
  readonly before: PreviousState;
  readonly definition: ResourceDefinition;
  readonly field: Field;
  readonly name: string;
  readonly replacement: string | undefined;
}

/** A bound on a field's values, with the statements that enforce it. */
interface BoundChange {
  readonly check: ConversionCheck;
  /** Replaces invalid values. */
  readonly update: string | undefined;
  readonly guard: string | undefined;
  /** The guard with the names before the change. */
  readonly formerGuard: string | undefined;
}

/**
 * Returns a check with the statements that enforce it.
 * @param value SQL expression for the replacement value
 */
function boundChange(
  context: FieldContext,
  says: string,
  conditionOf: (names: Names) => string,
  value: string | undefined,
  refuses: boolean,
): BoundChange {
  const { before, definition, field } = context;
  const names = { table: definition.name, columns: [field.name] };
  const former = formerly(before, definition.name, field.name);
  const guardOf = (where: Names): string | undefined =>
    refuses ? conversionGuard(where.table, context.name, says, conditionOf(where)) : undefined;
  return {
    check: checkOf(context, says, conditionOf, refuses && value === undefined),
    update:
      value === undefined
        ? undefined
        : `update ${quote(names.table)} set ${quote(field.name)} = ${value} where ${conditionOf(names)};`,
    guard: guardOf(names),
    formerGuard: guardOf({ table: former.table, columns: [former.column] }),
  };
}

function checkOf(
  { before, definition, field, name }: FieldContext,
  says: string,
  where: (names: Names) => string,
  refuses: boolean,
  suffixes: readonly string[] = [''],
): ConversionCheck {
  const { table } = formerly(before, definition.name, field.name);
  const columns = suffixes.map(
    (suffix) => formerly(before, definition.name, `${field.name}${suffix}`).column,
  );
  const exampleColumn = field.sensitive ? undefined : columns[0];
  return { name, says, where: where({ table, columns }), table, exampleColumn, refuses };
}

/** Returns the statements that add a field which is required or gets a value in existing records. */
function newField(context: FieldContext, stored: TableShape, newColumn: SchemaPart): FieldChange {
  const { definition, field, replacement, name } = context;
  if (replacement === undefined) {
    const says = 'is required but has no value';
    const { table } = formerly(context.before, definition.name, field.name);
    return {
      guards: [conversionGuard(table, name, says, 'true')],
      statements: [],
      checks: [{ ...checkOf(context, says, () => 'true', true), exampleColumn: undefined }],
    };
  }
  const [column] = fieldColumns(field);
  const collation = column?.collation === undefined ? '' : ` collate ${quote(column.collation)}`;
  const value = `((${replacement})::${column?.type})`;
  const table = quote(definition.name);
  const columnName = quote(field.name);
  const rule = newColumn.nullable ? '' : ' not null';
  const statements = [
    `alter table ${table} add ${columnName} ${column?.type}${collation}${rule} default ${value};`,
  ];
  // This default is only for existing records. If the field has its own default, a later statement sets it.
  if (newColumn.default === null)
    statements.push(`alter table ${table} alter column ${columnName} drop default;`);
  const addedColumn = { ...newColumn, default: newColumn.default === null ? null : value };
  return {
    guards: [],
    statements,
    checks: [],
    stored: { ...stored, columns: { ...stored.columns, [field.name]: addedColumn } },
  };
}

/** Returns the statements and the check that convert a field's values to another type. */
function conversion(
  context: FieldContext,
  {
    stored,
    target,
    from,
  }: { readonly stored: TableShape; readonly target: TableShape; readonly from: string },
): FieldChange {
  const { before, definition, field, replacement } = context;
  const table = quote(definition.name);
  const suffixes = storedSuffixes(from).filter((suffix) => stored.columns[`${field.name}${suffix}`]);
  const names = { table: definition.name, columns: suffixes.map((suffix) => `${field.name}${suffix}`) };
  // The guard and the conversion of a reference look up records, so invalid values are replaced by an UPDATE before
  // them.
  const isLinked = field.to !== undefined;
  const convert = ({ table: name, columns }: Names, replacement: string | undefined) =>
    convertField(field, from, columns.map(quote), `${quote(name)}."organization_id"`, replacement);
  const lostCondition = (replacement: string | undefined) => (where: Names) => {
    const { isNone, fits } = convert(where, replacement);
    const isLost = `not coalesce((${fits}), false)`;
    return defaultOf(field) === undefined ? `((${isNone}) or ${isLost})` : `(not (${isNone}) and ${isLost})`;
  };
  const { label: typeLabel, isNone, columns: values } = convert(names, isLinked ? undefined : replacement);
  const says = `is not ${typeLabel}`;
  const isLossless = isWider(from, field.type);
  const isChecked = !isLossless || defaultOf(field) === undefined;
  const storedType = String(stored.columns[field.name]?.type);
  const columnName = quote(field.name);
  const isNullable = stored.columns[field.name]?.nullable === true;
  const alters = [`alter column ${columnName} drop default`];
  if (field.nullable && !isNullable) alters.push(`alter column ${columnName} drop not null`);
  const statements = [`alter table ${table} ${alters.join(', ')};`];
  if (isLinked && replacement !== undefined) {
    const assignment = `${quote(field.name)} = (${replacement})::${storedType === 'text' ? 'text' : 'bigint'}`;
    statements.push(`update ${table} set ${assignment} where ${lostCondition(undefined)(names)};`);
  }
  const guards: string[] = [];
  if (isChecked) {
    const { table: formerTable } = formerly(before, definition.name, field.name);
    const former: Names = {
      table: formerTable,
      columns: names.columns.map((column) => formerly(before, definition.name, column).column),
    };
    const isRenamed =
      before.renamed.columns?.[definition.name] !== undefined || formerTable !== definition.name;
    // A replacement can refer to other columns by their new names.
    const usesNewNames =
      (replacement !== undefined && isRenamed) ||
      Object.values(before.renamed.tables ?? {}).includes(field.to ?? '');
    const isFirst = !(isLinked && replacement !== undefined) && !usesNewNames;
    const where = isFirst ? former : names;
    const condition = lostCondition(isLinked ? undefined : replacement)(where);
    (isFirst ? guards : statements).push(conversionGuard(where.table, context.name, says, condition));
  }
  const shape = {
    columns: { ...stored.columns },
    indexes: { ...stored.indexes },
    foreignKeys: { ...stored.foreignKeys },
  };
  for (const column of names.columns) {
    const constraint = linkOf(stored, column)?.name;
    if (constraint !== undefined) {
      statements.push(`alter table ${table} drop constraint ${quote(constraint)};`);
      delete shape.foreignKeys[constraint];
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
  if (storedType !== target.columns[field.name]?.type) {
    const fallback = defaultOf(field) ?? 'null';
    const types = columns.map(({ name, type, collation }, index) => {
      const value = `case when ${isNone} then ${index === 0 ? `(${fallback})::${type}` : 'null'} else ${values[index]} end`;
      return `alter column ${quote(name)} type ${type}${collate(collation)} using (${value})`;
    });
    statements.push(`alter table ${table} ${types.join(', ')};`);
  } else if (!field.nullable && defaultOf(field) !== undefined) {
    statements.push(`update ${table} set ${columnName} = ${defaultOf(field)} where ${columnName} is null;`);
  }
  for (const column of names.columns.slice(1)) {
    if (target.columns[column] !== undefined) continue;
    // The text in the first column now includes the dropped column's value.
    statements.push(`alter table ${table} drop column ${quote(column)};`);
    delete shape.columns[column];
  }
  for (const [index, { name }] of columns.entries()) {
    const newColumn = target.columns[name] as SchemaPart;
    shape.columns[name] = {
      ...newColumn,
      default: null,
      nullable: index > 0 || isNullable || field.nullable,
    };
  }
  const check = checkOf(context, says, lostCondition(replacement), true, suffixes);
  return { guards, statements, checks: isChecked ? [check] : [], stored: { ...stored, ...shape } };
}

const collate = (collation: string | undefined): string =>
  collation === undefined ? '' : ` collate ${quote(collation)}`;

/** Returns a statement that fails the migration if any record matches a condition. */
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

/** Returns the statements and checks for duplicate values of fields that become unique. */
function duplicates(
  before: PreviousState,
  { name, fields, uniques }: ResourceDefinition,
  instead: ReadonlyMap<string, string>,
  alteredFields: ReadonlySet<string>,
): FieldChange[] {
  const [anyField] = fields;
  if (anyField === undefined) return [];
  const { table } = formerly(before, name, anyField.name);
  const previousResource = before.api[table];
  if (previousResource === undefined) return [];
  return uniques.flatMap((unique) => {
    const fieldNames = namesOf(unique);
    const columns = fieldNames.map((field) => formerly(before, name, field).column);
    const isStored = fieldNames.every((field) => before.tables[name]?.columns[field] !== undefined);
    if (!isStored || previousResource.unique.some((names) => names.join() === columns.join())) return [];
    const where = (names: Names): string => {
      const distinctions = unique.map((field, index) =>
        distinctionOf(field, quote(names.columns[index] ?? '')),
      );
      const keys = ['"organization_id"', ...distinctions.flatMap((distinction) => distinction.keys)].join(
        ', ',
      );
      const filled = distinctions.map((distinction) => distinction.presence).join(' and ');
      return `${filled} and (${keys}) in (select ${keys} from ${quote(names.table)} where ${filled} group by ${keys} having count(*) > 1)`;
    };
    const names = { table: name, columns: fieldNames };
    const former = { table, columns };
    const label = `${name}.${fieldNames.join('+')}`;
    const says = 'has a duplicate value';
    const replacement = instead.get(label);
    const [first] = unique;
    const update =
      replacement === undefined
        ? []
        : [`update ${quote(name)} set ${quote(first.name)} = (${replacement})::text where ${where(names)};`];
    // Other statements can create or remove duplicates.
    const isFirst = replacement === undefined && !fieldNames.some((field) => alteredFields.has(field));
    return [
      {
        guards: isFirst ? [conversionGuard(table, label, says, where(former))] : [],
        statements: isFirst ? [] : [...update, conversionGuard(name, label, says, where(names))],
        checks: [
          {
            name: label,
            says,
            where: where(former),
            table,
            exampleColumn: first.sensitive ? undefined : columns[0],
            refuses: replacement === undefined,
          },
        ],
      },
    ];
  });
}
