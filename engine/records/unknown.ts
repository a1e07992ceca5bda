import type { FieldIssue } from '../errors.ts';
import { parameterIssue } from '../query/index.ts';
import { suggestion } from '../yaml/index.ts';

/** Comparing names takes time, and a request may have many: only the first are compared, and none that is longer. */
const maxHints = 5;
const maxCompared = 60;

type Problem = (name: string, index: number) => FieldIssue;

const problem =
  (message: string, known: readonly string[]): Problem =>
  (name, index) => {
    const isCompared = index < maxHints && name.length <= maxCompared;
    return parameterIssue(name, message + (isCompared ? suggestion(name, known) : ''));
  };

/** Fields that `Prefer: handling=strict` refuses. @param known those that a body may have */
export const unknownField = (known: readonly string[]): Problem =>
  problem('is not a field of this resource', known);

/** Parameters that `Prefer: handling=strict` refuses. @param known those of the operation */
export const unknownParameter = (known: readonly string[]): Problem =>
  problem('is not a parameter of this operation', known);
