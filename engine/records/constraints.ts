import type { RecordCheck, ResourceDefinition } from '../definition/index.ts';
import type { IssueReason } from '../errors.ts';
import { conditionSql, noCaller } from '../expressions/index.ts';
import { constraintSql, fieldColumns, rulesOf } from '../fields/index.ts';
import { identifier, quote } from '../sql/index.ts';
import { fieldGroups } from './access.ts';

/** A check constraint of a resource's table. */
export interface Constraint {
  readonly name: string;
  /** SQL condition on the columns. */
  readonly condition: string;
  /** The fields at which a violation is reported. */
  readonly fields: readonly string[];
  /** Error message for records that violate the condition. */
  readonly message: string;
  readonly reason: IssueReason;
}

/** Returns the constraints that enforce the rules of a resource's fields, its checks, and fields with several columns. */
export const constraints = (definition: ResourceDefinition): readonly Constraint[] => [
  ...ruleConstraints(definition),
  ...checkConstraints(definition),
  ...alternativeConstraints(definition),
  ...integrityConstraints(definition),
];

const ruleConstraints = ({ name: resource, fields }: ResourceDefinition): readonly Constraint[] =>
  fields.flatMap((field) => {
    const { name, aliasOf, message } = field;
    const condition = aliasOf === undefined ? constraintSql(field, quote(name)) : undefined;
    if (condition === undefined) return [];
    const rules = rulesOf(field).filter(({ isConstraint }) => isConstraint);
    const text = message ?? `${name} ${rules.map(({ must }) => `must ${must}`).join(' and ')}`;
    return [
      {
        ...{ name: identifier(`${resource}_${name}_rules`), condition, fields: [name], message: text },
        reason:
          message === undefined
            ? { kind: 'rules', reasons: rules.map(({ reason }) => reason) }
            : { kind: 'message' },
      },
    ];
  });

function checkConstraints({ name: resource, checks }: ResourceDefinition): readonly Constraint[] {
  const names = new Set<string>();
  return checks.map((check) => {
    const fields = check.fields.map(({ name }) => name);
    const stem = `${resource}_${fields.join('_')}_check`;
    let name = identifier(stem);
    for (let count = 2; names.has(name); count++) name = identifier(`${stem}${count}`);
    names.add(name);
    return { name, condition: checkSql(check), fields, message: check.message, reason: { kind: 'message' } };
  });
}

/**
 * Returns the SQL condition of a check. It is null, which a constraint accepts, if a missing value leaves it undecided.
 * @param columnOf returns the SQL expression for a field's value; its column by default
 */
export const checkSql = ({ condition }: RecordCheck, columnOf: (field: string) => string = quote): string =>
  conditionSql(condition, { column: columnOf, ...noCaller });

/**
 * Returns the constraints of references to one of several resources: such a field refers to at most one record, and to
 * exactly one if it is required.
 */
const alternativeConstraints = ({
  name: resource,
  fields,
  retired,
}: ResourceDefinition): readonly Constraint[] =>
  [...fields, ...retired.map((field) => ({ ...field, required: false }))].flatMap(
    ({ name, required, alternatives }): Constraint[] => {
      if (alternatives === undefined) return [];
      const columns = alternatives.map((alternative) => quote(alternative.name)).join(', ');
      const message = `${name} must refer to ${required ? 'a record' : 'at most one record'}`;
      const condition = `num_nonnulls(${columns}) ${required ? '=' : '<='} 1`;
      return [
        {
          ...{ name: identifier(`${resource}_${name}_target`), condition, fields: [name], message },
          reason: { kind: 'required' },
        },
      ];
    },
  );

/** Returns the constraints that keep the columns of a field consistent. */
const integrityConstraints = ({
  name: resource,
  fields,
  retired,
}: ResourceDefinition): readonly Constraint[] =>
  [...fields.filter(({ aliasOf }) => aliasOf === undefined), ...retired].flatMap((field): Constraint[] => {
    const { name, type } = field;
    const columns = fieldColumns(field).map((column) => quote(column.name));
    const condition = type.integrity?.(columns, fieldGroups({ fields }).length > 0);
    if (condition === undefined) return [];
    const message = `${name} ${type.integrityMessage ?? `must be ${type.expected}`}`;
    return [
      {
        ...{ name: integrityConstraint(resource, name), condition, fields: [name], message },
        reason: { kind: 'expected', expects: type.expects },
      },
    ];
  });

/** Returns the name of the constraint that keeps the columns of a field consistent. */
export const integrityConstraint = (resource: string, field: string): string =>
  identifier(`${resource}_${field}_value`);
