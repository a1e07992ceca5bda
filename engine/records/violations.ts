import { rejectingRule, violatedConstraint } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import { errors, type HttpError } from '../errors.ts';
import { constraints } from './constraints.ts';
import { uniqueIndexName } from './indexes.ts';
import { type LockedResources, lockViolation } from './lock-triggers.ts';
import { sequenceFields } from './sequence-numbers.ts';
import { invalidTransition } from './transitions.ts';

/** Returns the error for a rejected write, or undefined if no rule, transition, sequence or lock rejected it. */
export type ExplainViolation = (cause: unknown) => HttpError | undefined;

/**
 * Compiles a function that explains which rule, transition or sequence of a resource, or which locked record of any resource,
 * rejected a write.
 */
export function violations({
  stored: definition,
  resources,
}: {
  readonly stored: ResourceDefinition;
  readonly resources: LockedResources;
}): ExplainViolation {
  const byName = new Map(constraints(definition).map((constraint) => [constraint.name, constraint]));
  const sequences = new Map(
    sequenceFields(definition).map((field) => [uniqueIndexName(definition.name, [field]), field.name]),
  );
  return (cause) => {
    const duplicate = sequences.get(violatedConstraint(cause) ?? '');
    if (duplicate !== undefined) return errors.duplicate([duplicate]);
    const violated = byName.get(rejectingRule(cause) ?? '');
    return violated === undefined
      ? (lockViolation(resources, cause) ?? invalidTransition(definition, cause))
      : errors.ruleViolated(violated.fields, violated.message, violated.reason);
  };
}
