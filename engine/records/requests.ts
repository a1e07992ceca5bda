import { errors, type FieldIssue } from '../errors.ts';
import { int64 } from '../fields/index.ts';
import type { Body, BodyRules } from './body.ts';
import type { OperationContext, OperationPlan, OperationRequest } from './operation.ts';
import { unknownParameter } from './unknown.ts';

/** Query parameters of every operation; `org` selects a user's organization, keys belong to one. */
export const commonParameters: readonly string[] = ['org'];

/** Returns the common part of all plans. */
export const planRequest = ({ caller }: OperationRequest): OperationPlan => ({
  organization: caller.principal.organization,
  caller,
});

/** Returns the ID in the path. An ID that is not an int64 cannot exist. @throws HttpError 404 */
export function recordId(
  { definition }: Pick<OperationContext, 'definition'>,
  { id: text = '' }: OperationRequest,
): string {
  if (text === '') throw errors.pathNotFound('. Remove the trailing slash.');
  const id = int64(text);
  if (id === undefined) throw errors.recordNotFound(definition.singular);
  return id;
}

/**
 * Returns the validated body of a request.
 * @param types accepted content types
 * @throws HttpError 400 with all issues
 */
export function validBody(rules: BodyRules, request: OperationRequest, types?: readonly string[]): Body {
  const body = request.body(types);
  const unexpected = request.strict ? rules.unexpected(body) : [];
  rejectRequest([...unknownParameters(request, commonParameters), ...unexpected, ...rules.validate(body)]);
  return body;
}

/** Returns issues for unknown parameters if the caller sent `Prefer: handling=strict`. */
export function unknownParameters(
  { strict, query }: OperationRequest,
  known: readonly string[],
): FieldIssue[] {
  if (!strict) return [];
  return Object.keys(query)
    .filter((name) => !known.includes(name))
    .map(unknownParameter(known));
}

/** @throws HttpError 400 if there are issues */
export function rejectRequest(problems: readonly FieldIssue[]): void {
  if (problems.length > 0) throw errors.invalidFields(problems);
}
