import type { FieldIssue } from '../errors.ts';
import { customFieldName } from '../fields/index.ts';
import { parameterIssue } from '../query/index.ts';
import { didYouMean, hintForInput } from '../yaml/index.ts';

/** Maximum number of names to compare for suggestions. Comparing names takes time, and a request can contain many. */
export const maxHints = 5;

/** Creates an issue for a name. `index` is its index among the unknown names. */
type IssueOf = (name: string, index: number) => FieldIssue;

const issueOf =
  (message: string, names: readonly string[], comparedName = (name: string) => name): IssueOf =>
  (name, index) =>
    parameterIssue(name, message, index < maxHints ? hintForInput(comparedName(name), names) : undefined);

/** Creates issues for fields rejected by `Prefer: handling=strict`. @param names accepted fields */
export const unknownField = (names: readonly string[]): IssueOf =>
  issueOf('is not a field of this resource', names);

/** Creates issues for keys of a body without fields, such as a batch, rejected by `Prefer: handling=strict`. @param names accepted keys */
export const unknownProperty = (names: readonly string[]): IssueOf =>
  issueOf('is not a property of this body', names);

/** Creates issues for values without a custom field. @param names names of the custom fields */
export const unknownCustomField = (names: readonly string[]): IssueOf =>
  issueOf(
    'is not a custom field of this resource',
    names.map((name) => name.slice(customFieldName('').length)),
    (name) => name.slice(customFieldName('').length),
  );

/** Creates issues for parameters rejected by `Prefer: handling=strict`. @param names accepted parameters */
export function unknownParameter(names: readonly string[]): IssueOf {
  const message = 'is not a parameter of this operation';
  const issue = issueOf(message, names);
  return (name, index) => {
    // The name of a custom field, without the prefix that its filter needs.
    const filter = customFieldName(name);
    return names.includes(filter) ? parameterIssue(name, message, didYouMean(filter)) : issue(name, index);
  };
}
