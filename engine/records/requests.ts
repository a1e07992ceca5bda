import { errors, excerpt, type FieldIssue } from '../errors.ts';
import { int64 } from '../fields/index.ts';
import type { Body, BodyRules } from './body.ts';
import { customFieldsOf, withCustomValues } from './custom-fields.ts';
import type { CustomWrite } from './custom-issues.ts';
import type { BodyInput, OperationContext, OperationInput, OperationPlan } from './operation.ts';
import { unknownParameter } from './unknown-names.ts';

/** Query parameters of every operation. `org` selects one of a user's organizations. */
export const commonParameters: readonly string[] = ['org'];

/** Returns the properties common to all plans. */
export const basePlan = ({ caller }: OperationInput): OperationPlan => ({
  organization: caller.principal.organization,
  caller,
});

/** Returns the record's ID. @throws HttpError 404 if it is not an int64, because no such record can exist */
export function recordId(
  { definition }: Pick<OperationContext, 'definition'>,
  { id: text }: { readonly id: string },
): string {
  if (text === '') throw errors.pathNotFound('', 'Remove the trailing slash.');
  const id = int64(text);
  if (id === undefined) {
    throw errors.recordNotFound(
      definition.singular,
      `"${excerpt(text)}" is not an ID: IDs are 64-bit integers.`,
    );
  }
  return id;
}

/** Returns the validated body of a write. @throws HttpError 400 with all issues */
export function validBody(
  rules: BodyRules,
  input: BodyInput,
  definition: OperationContext['definition'],
  write: CustomWrite,
): Body {
  const { body, strict } = input;
  const customFields = customFieldsOf(input, definition);
  const unexpected = strict ? rules.unexpected(body, customFields) : [];
  const issues = rules.validate(body, customFields, write);
  rejectRequest([...unknownParameters(input, commonParameters), ...unexpected, ...issues]);
  return withCustomValues(rules.accepted(body), customFields, write);
}

/** Returns an issue for each unknown parameter if the caller sent `Prefer: handling=strict`. */
export function unknownParameters(
  { strict = false, query = {} }: Pick<OperationInput, 'strict' | 'query'>,
  knownParameters: readonly string[],
): FieldIssue[] {
  if (!strict) return [];
  const known = new Set(knownParameters);
  return Object.keys(query)
    .filter((name) => !known.has(name))
    .map(unknownParameter(knownParameters));
}

/** Rejects the request if there are issues. @throws HttpError 400 with all issues */
export function rejectRequest(issues: readonly FieldIssue[]): void {
  if (issues.length > 0) throw errors.invalidFields(issues);
}
