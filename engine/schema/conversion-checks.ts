import type { ColumnShape, TableShape, TableShapes } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import { constraintSql, type Field, fieldColumns, rulesOf } from '../fields/index.ts';
import {
  checkSql,
  distinctionOf,
  namesOf,
  sequenceFields,
  uniqueIndexName,
  uniqueKeys,
} from '../records/index.ts';
import { literal, quote } from '../sql/index.ts';
import { type Api, type ApiField, removedValues } from './api.ts';
import type { Change, SimpleChange } from './changes/change.ts';
import { applyChanges } from './changes/index.ts';
import {
  assertKeepsCurrency,
  convertField,
  defaultOf,
  hasDefaults,
  isWider,
  storedSuffixes,
} from './conversions.ts';
import type { Renames } from './stored-model.ts';
import { linkOf, storedType } from './stored-types.ts';

/** A check for stored values that a change would not preserve. */
export interface ConversionCheck {
  /** The field's name, for example `leads.score`. */
  readonly name: string;
  /** Completes "leads.score … in 3 records". */
  readonly says: string;
  /** SQL condition that matches the affected records, evaluated before the change. */
  readonly where: string;
  /** The table's name before the change. */
  readonly table: string;
  /** Column with example values, as named before the change. Undefined for new or sensitive fields. */
  readonly exampleColumn: string | undefined;
  /** Whether the migration fails if any records are affected. */
  readonly refuses: boolean;
  /** Whether the migration replaces the affected values. */
  readonly replaces?: true;
}

/** The changes and checks that convert stored values. */
export interface ConversionChecks {
  /** Checks that fail if values do not fit. They run before the change, when its locks are not held yet. */
  readonly guards: readonly Change[];
  readonly changes: readonly Change[];
  readonly checks: readonly ConversionCheck[];
  /** The tables after these changes. */
  readonly tables: TableShapes;
}

/** The model before the change, with renames applied to its tables. */
export interface PreviousState {
  /** Tables with their new names. */
  readonly tables: TableShapes;
  readonly renamed: Renames;
  readonly api: Api;
}

/** The table name and column names of a field. */
interface Names {
  readonly table: string;
  readonly columns: readonly string[];
}

/**
 * Returns changes and checks for fields whose type, maximum length, values or nullability changes.
 * @param instead SQL expressions of type text that replace invalid values, keyed by field name
 */
export function conversionChecks(
  before: PreviousState,
  after: TableShapes,
  definitions: readonly ResourceDefinition[],
  instead: ReadonlyMap<string, string>,
): ConversionChecks {
  const fieldChanges: FieldChange[] = [];
  let tables = before.tables;
  for (const definition of definitions) {
    const target = after[definition.name];
    if (tables[definition.name] === undefined || target === undefined) continue;
    const alteredFields = new Set<string>();
    for (const field of [...definition.fields, ...definition.retired]) {
      const stored = tables[definition.name] as TableShape;
      const change = changeOfField(before, { definition, field, stored, target }, instead);
      if (change === undefined) continue;
      fieldChanges.push(change);
      if (change.changes.length > 0) alteredFields.add(field.name);
      tables = applyChanges(tables, change.changes);
    }
    fieldChanges.push(...duplicates(before, definition, instead, alteredFields));
    fieldChanges.push(...violatedChecks(before, definition, instead, alteredFields));
  }
  return {
    guards: fieldChanges.flatMap(({ guards }) => guards),
    changes: fieldChanges.flatMap(({ changes }) => changes),
    checks: fieldChanges.flatMap(({ checks }) => checks),
    tables,
  };
}

/** A field, and its table before and after the change. */
interface FieldTables {
  readonly definition: ResourceDefinition;
  readonly field: Field;
  readonly stored: TableShape;
  readonly target: TableShape;
}

/** The part of {@link ConversionChecks} for one field or unique key. */
type FieldChange = Omit<ConversionChecks, 'tables'>;

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
  if (field.alternatives !== undefined) return missingTargets(before, { definition, field, stored, target });
  const columns = fieldColumns(field);
  const [first] = columns;
  if (first === undefined || field.set !== undefined) return undefined;
  const column = stored.columns[first.name];
  const newColumn = target.columns[first.name] as ColumnShape;
  const name = `${definition.name}.${field.name}`;
  const replacement = instead.get(name);
  const context = { before, definition, field, name, replacement };
  if (column === undefined)
    return replacement === undefined && (newColumn.nullable === true || newColumn.default !== undefined)
      ? undefined
      : newField(context, newColumn);
  const former = formerly(before, definition.name, field.name);
  const previousField: ApiField | undefined = before.api[former.table]?.fields[former.column];
  const from = previousField?.type ?? storedType(stored, field.name);
  if (previousField !== undefined) assertKeepsCurrency(field, previousField);
  const isLink = (shape: TableShape) => linkOf(shape, field.name) !== undefined;
  // The columns of a number and a user are the same, but a user must be a member.
  const becomesUser = field.type.users === true && from !== field.typeName;
  if (column.type !== newColumn.type || isLink(stored) !== isLink(target) || becomesUser) {
    return conversion(context, { stored, target, from });
  }
  const bounds: BoundChange[] = [];
  if (column.nullable === true && newColumn.nullable !== true) {
    // A step writes only one column.
    const fallback = hasDefaults(field) ? undefined : defaultOf(field);
    const value = replacement === undefined ? fallback : `(${replacement})::${first.type}`;
    bounds.push(
      boundChange(
        context,
        'has no value',
        ({ columns: [column = ''] }) => `${quote(column)} is null`,
        value,
        value === undefined,
        true,
      ),
    );
  }
  // The rules of retired fields are not enforced.
  const rules = definition.retired.includes(field) ? [] : rulesOf(field);
  for (const { key, condition, violation, isConstraint, isLooserThan } of rules) {
    const previousRule = previousField?.[key];
    if (condition === undefined || (previousField === undefined && isConstraint !== true)) continue;
    if (previousRule !== undefined && isLooserThan(previousRule)) continue;
    const value = replacement === undefined ? undefined : `(${replacement})::${first.type}`;
    const where = ({ columns: [column = ''] }: Names) => `not (${condition(quote(column))})`;
    bounds.push(boundChange(context, violation, where, value, true));
  }
  const removed =
    previousField && field.values?.isSuggestion === false && field.values.accepted === undefined
      ? removedValues(previousField, { enum: field.values.list })
      : [];
  if (removed.length > 0) {
    const where = ({ columns: [column = ''] }: Names) =>
      `${quote(column)} in (${removed.map(literal).join(', ')})`;
    const value = replacement === undefined ? undefined : `(${replacement})::text`;
    bounds.push(boundChange(context, 'has a value that is no longer listed', where, value, true));
  }
  if (bounds.length === 0) return undefined;
  const checks = bounds.map((bound) => bound.check);
  // A guard also checks the replacement values, so it has to run after the update.
  if (bounds.some(({ update }) => update !== undefined)) {
    const changes = bounds.flatMap(({ update, guard }) => [update, guard].flatMap((change) => change ?? []));
    return { guards: [], changes, checks };
  }
  return { guards: bounds.flatMap(({ formerGuard }) => formerGuard ?? []), changes: [], checks };
}

/** Returns the check for records without a value in a field that must now refer to one of several resources. */
function missingTargets(
  before: PreviousState,
  { definition, field, stored, target }: FieldTables,
): FieldChange | undefined {
  const { required, alternatives = [] } = field;
  const columns = alternatives.map(({ name }) => name);
  const isChecked = ({ checks }: TableShape, condition: string) =>
    Object.values(checks).some((check) => check.condition === condition);
  const condition = `num_nonnulls(${columns.map(quote).join(', ')}) = 1`;
  if (!required || isChecked(stored, condition) || !isChecked(target, condition)) return undefined;
  const { table } = formerly(before, definition.name, field.name);
  const former = columns
    .filter((name) => stored.columns[name] !== undefined)
    .map((name) => quote(formerly(before, definition.name, name).column));
  const name = `${definition.name}.${field.name}`;
  const says = 'is required but has no value';
  const where = former.length === 0 ? 'true' : `num_nonnulls(${former.join(', ')}) = 0`;
  return {
    guards: [guard(table, name, says, where)],
    changes: [],
    checks: [{ name, says, where, table, exampleColumn: undefined, refuses: true }],
  };
}

interface FieldContext {
  readonly before: PreviousState;
  readonly definition: ResourceDefinition;
  readonly field: Field;
  readonly name: string;
  readonly replacement: string | undefined;
}

/** A constraint on a field's values, and the changes that enforce it. */
interface BoundChange {
  readonly check: ConversionCheck;
  /** Replaces invalid values. */
  readonly update: Change | undefined;
  readonly guard: Change | undefined;
  /** The guard, using the names before the change. */
  readonly formerGuard: Change | undefined;
}

/**
 * Returns a check and the changes that enforce it.
 * @param value SQL expression for the replacement value
 * @param fillsNull whether the condition matches only null values
 */
function boundChange(
  context: FieldContext,
  says: string,
  conditionOf: (names: Names) => string,
  value: string | undefined,
  refuses: boolean,
  fillsNull = false,
): BoundChange {
  const { before, definition, field } = context;
  const names = { table: definition.name, columns: [field.name] };
  const former = formerly(before, definition.name, field.name);
  const guardOf = (where: Names): Change | undefined =>
    refuses ? guard(where.table, context.name, says, conditionOf(where)) : undefined;
  return {
    check: {
      ...checkOf(context, says, conditionOf, refuses && value === undefined),
      ...(value !== undefined && { replaces: true }),
    },
    update:
      value === undefined
        ? undefined
        : {
            kind: 'backfill',
            table: names.table,
            column: field.name,
            value,
            ...(!fillsNull && { where: conditionOf(names) }),
          },
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

/** Returns the changes that add a field that is required or gets a value in existing records. */
function newField(context: FieldContext, newColumn: ColumnShape): FieldChange {
  const { definition, field, replacement, name } = context;
  if (replacement === undefined) {
    const says = 'is required but has no value';
    const { table } = formerly(context.before, definition.name, field.name);
    return {
      guards: [guard(table, name, says, 'true')],
      changes: [],
      checks: [{ ...checkOf(context, says, () => 'true', true), exampleColumn: undefined }],
    };
  }
  const value = `((${replacement})::${newColumn.type})`;
  const table = definition.name;
  const columns = { [field.name]: { ...newColumn, default: value } };
  const rules = constraintSql(field, quote(field.name));
  return {
    guards: [],
    changes: [
      { kind: 'addColumns', table, columns },
      ...(rules === undefined ? [] : [guard(table, name, 'violates a rule', `not (${rules})`)]),
      // This default is only for existing records. A later change sets the field's own default, if any.
      ...(newColumn.default === undefined
        ? [{ kind: 'default', table, column: field.name, value: null } as const]
        : []),
    ],
    checks: [],
  };
}

/** Returns the changes and the check that convert a field's values to another type. */
function conversion(
  context: FieldContext,
  {
    stored,
    target,
    from,
  }: { readonly stored: TableShape; readonly target: TableShape; readonly from: string },
): FieldChange {
  const { before, definition, field, replacement } = context;
  const table = definition.name;
  const suffixes = storedSuffixes(from).filter((suffix) => stored.columns[`${field.name}${suffix}`]);
  const names = { table, columns: suffixes.map((suffix) => `${field.name}${suffix}`) };
  // The guard and the conversion of a reference look up rows, so an UPDATE first replaces invalid values.
  const isLinked = field.to !== undefined || field.type.users === true;
  const convert = ({ table: name, columns }: Names, replacement: string | undefined) =>
    convertField(field, from, columns.map(quote), `${quote(name)}."organization_id"`, replacement);
  const lostCondition = (replacement: string | undefined) => (where: Names) => {
    const { isNone, fits } = convert(where, replacement);
    const isLost = `not coalesce((${fits}), false)`;
    return defaultOf(field) === undefined ? `((${isNone}) or ${isLost})` : `(not (${isNone}) and ${isLost})`;
  };
  const { label: typeLabel, isNone, columns: values } = convert(names, isLinked ? undefined : replacement);
  const hasRules = constraintSql(field, '') !== undefined;
  const says = `is not ${typeLabel}${hasRules ? ' or violates a rule' : ''}`;
  const isLossless = isWider(from, field.type);
  const isChecked = !isLossless || defaultOf(field) === undefined || hasRules;
  const storedType = String(stored.columns[field.name]?.type);
  const column = field.name;
  const isNullable = stored.columns[column]?.nullable === true;
  const changes: SimpleChange[] = [{ kind: 'default', table, column, value: null }];
  if (field.nullable && !isNullable) changes.push({ kind: 'nullability', table, column, nullable: true });
  if (isLinked && replacement !== undefined) {
    const value = `(${replacement})::${storedType === 'text' ? 'text' : 'bigint'}`;
    changes.push({ kind: 'backfill', table, column, value, where: lostCondition(undefined)(names) });
  }
  const guards: SimpleChange[] = [];
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
    (isFirst ? guards : changes).push(guard(where.table, context.name, says, condition));
  }
  for (const name of names.columns.flatMap((stem) => linkOf(stored, stem)?.name ?? []))
    changes.push({ kind: 'dropForeignKey', table, name });
  for (const [name, index] of Object.entries(stored.indexes)) {
    if (names.columns.some((stem) => textsOf(index).some((text) => text.includes(quote(stem)))))
      changes.push({ kind: 'dropIndex', table, name });
  }
  const columns = fieldColumns(field);
  const added = columns.slice(1).filter(({ name }) => stored.columns[name] === undefined);
  for (const { name, type, collation } of added) {
    const shape = { type, ...(collation !== undefined && { collation }), nullable: true as const };
    changes.push({ kind: 'addColumns', table, columns: { [name]: shape } });
  }
  const isRetyped = storedType !== target.columns[column]?.type;
  const fallback = defaultOf(field);
  if (isRetyped) {
    const retyped = columns.map(({ name, type, collation }, index) => ({
      name,
      type,
      ...(collation !== undefined && { collation }),
      using: `case when ${isNone} then ${index === 0 || hasDefaults(field) ? `(${defaultOf(field, index) ?? 'null'})::${type}` : 'null'} else ${values[index]} end`,
    }));
    changes.push({ kind: 'alterTypes', table, columns: retyped });
  } else if (!field.nullable && fallback !== undefined) {
    changes.push({ kind: 'backfill', table, column, value: fallback });
  }
  const dropped = names.columns.slice(1).filter((name) => target.columns[name] === undefined);
  // The text in the first column now includes the value of the dropped column.
  if (dropped.length > 0) changes.push({ kind: 'dropColumns', table, columns: dropped });
  const checks: ConversionCheck[] = [
    checkOf(context, says, lostCondition(replacement), true, suffixes),
    ...(replacement === undefined
      ? []
      : [
          {
            ...checkOf(context, says, lostCondition(undefined), false, suffixes),
            replaces: true as const,
          },
        ]),
  ];
  return {
    guards,
    changes: isRetyped ? [{ kind: 'retypeColumns', table, changes }] : changes,
    checks: isChecked ? checks : [],
  };
}

/** Returns the SQL in an index definition. */
const textsOf = (index: TableShape['indexes'][string]): readonly string[] =>
  'expression' in index ? [index.expression] : [...index.keys, index.where ?? ''];

/** Returns a change that fails the migration if any record matches a condition. */
const guard = (table: string, name: string, says: string, where: string): SimpleChange => ({
  kind: 'check',
  table,
  name,
  says,
  where,
});

/** Returns the checks for records that violate the resource's new conditions. */
function violatedChecks(
  before: PreviousState,
  definition: ResourceDefinition,
  instead: ReadonlyMap<string, string>,
  alteredFields: ReadonlySet<string>,
): FieldChange[] {
  const { name, fields, checks } = definition;
  const stored = before.tables[name];
  if (stored === undefined) return [];
  const existing = Object.values(stored.checks).map(({ condition }) => condition);
  const { table } = formerly(before, name, '');
  return checks.flatMap((check) => {
    const { condition } = check;
    // The values of a field whose type changes are converted later.
    const isConverted = condition.fields.some((field) => alteredFields.has(field));
    if (isConverted || existing.includes(checkSql(check))) return [];
    const columnOf = (fieldName: string): string => {
      const field = fields.find((candidate) => candidate.name === fieldName);
      if (field === undefined || stored.columns[fieldName] !== undefined)
        return quote(formerly(before, name, fieldName).column);
      const value = instead.get(`${name}.${fieldName}`) ?? defaultOf(field) ?? 'null';
      return `(${value})::${fieldColumns(field)[0]?.type}`;
    };
    const where = `not (${checkSql(check, columnOf)})`;
    const says = `do not meet ${condition.source}`;
    return [
      {
        guards: [guard(table, name, says, where)],
        changes: [],
        checks: [{ name, says, where, table, exampleColumn: undefined, refuses: true }],
      },
    ];
  });
}

/** Returns the changes and checks for duplicate values of fields that become unique. */
function duplicates(
  before: PreviousState,
  { name, fields, uniques: declaredUniques }: ResourceDefinition,
  instead: ReadonlyMap<string, string>,
  alteredFields: ReadonlySet<string>,
): FieldChange[] {
  const uniques = [...declaredUniques, ...sequenceFields({ fields }).map((field) => [field] as const)];
  const [anyField] = fields;
  if (anyField === undefined) return [];
  const { table } = formerly(before, name, anyField.name);
  const previousResource = before.api[table];
  if (previousResource === undefined) return [];
  return uniques.flatMap((unique) => {
    const fieldNames = namesOf(unique);
    const columns = fieldNames.map((field) => formerly(before, name, field).column);
    const isStored = fieldNames.every((field) => before.tables[name]?.columns[field] !== undefined);
    const isComparedAsBefore = unique.every(
      ({ format }, index) => previousResource.fields[columns[index] ?? '']?.format === format,
    );
    const wasNumbered = previousResource.fields[columns.join()]?.sequence !== undefined;
    const wasUnique = wasNumbered || previousResource.unique.some((names) => names.join() === columns.join());
    // Earlier versions did not compare the values of a field with a lookup by their keys.
    const index = before.tables[name]?.indexes[uniqueIndexName(name, unique)];
    const isIndexed = index !== undefined && textsOf(index).join().includes(uniqueKeys(unique).join());
    const hasLookup = unique.some(
      ({ comparison, format }) => comparison !== undefined && format === undefined,
    );
    if (!isStored || (wasUnique && isComparedAsBefore && (!hasLookup || isIndexed))) return [];
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
    const update: Change[] =
      replacement === undefined
        ? []
        : [
            {
              kind: 'backfill',
              table: name,
              column: first.name,
              value: `(${replacement})::text`,
              where: where(names),
            },
          ];
    // Other changes can create or remove duplicates.
    const isFirst = replacement === undefined && !fieldNames.some((field) => alteredFields.has(field));
    return [
      {
        guards: isFirst ? [guard(table, label, says, where(former))] : [],
        changes: isFirst ? [] : [...update, guard(name, label, says, where(names))],
        checks: [
          {
            name: label,
            says,
            where: where(former),
            table,
            exampleColumn: first.sensitive ? undefined : columns[0],
            refuses: replacement === undefined,
            ...(replacement !== undefined && { replaces: true as const }),
          },
        ],
      },
    ];
  });
}
