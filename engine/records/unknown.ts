import type { FieldIssue } from '../errors.ts';
import { parameterIssue } from '../query/index.ts';
import { suggestion } from '../yaml/index.ts';

/**
 * Only the first few short names are compared, because comparing names takes time and a request can contain
 * many.
 */
const maxHints = 5;
const maxCompared = 60;

type IssueOf = (name: string, index: number) => FieldIssue;

const issueOf =
  (message: string, names: readonly string[]): IssueOf =>
  (name, index) => {
    const isCompared = index < maxHints && name.length <= maxCompared;
    return parameterIssue(name, message + (isCompared ? suggestion(name, names) : ''));
  };

/** Creates issues for fields rejected by `Prefer: handling=strict`. @param names accepted fields */
export const unknownField = (names: readonly string[]): IssueOf =>
  issueOf('is not a field of this resource', names);

/** Creates issues for parameters rejected by `Prefer: handling=strict`. @param names accepted parameters */
export const unknownParameter = (names: readonly string[]): IssueOf =>
  issueOf('is not a parameter of this operation', names);
