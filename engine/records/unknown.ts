import type { FieldIssue } from '../errors.ts';
import { parameterIssue } from '../query/index.ts';
import { suggestion } from '../yaml/index.ts';

/** Comparing names takes time, and a request can contain many, so only the first short names are compared. */
const maxHints = 5;
const maxCompared = 60;

type Problem = (name: string, index: number) => FieldIssue;

const problem =
  (message: string, known: readonly string[]): Problem =>
  (name, index) => {
    const isCompared = index < maxHints && name.length <= maxCompared;
    return parameterIssue(name, message + (isCompared ? suggestion(name, known) : ''));
  };

/** Issues of fields rejected by `Prefer: handling=strict`. @param known accepted fields */
export const unknownField = (known: readonly string[]): Problem =>
  problem('is not a field of this resource', known);

/** Issues of parameters rejected by `Prefer: handling=strict`. @param known accepted parameters */
export const unknownParameter = (known: readonly string[]): Problem =>
  problem('is not a parameter of this operation', known);
