import { errors, type FieldIssue } from '../errors.ts';
import { int64 } from '../fields/index.ts';
import type { Body, BodyRules } from './body.ts';
import type { OperationContext, OperationPlan, OperationRequest } from './operation.ts';
import { unknownParameter } from './unknown.ts';

/** Query parameters that every operation knows; `org` chooses the organization of people, keys have their own. */
export const commonParameters: readonly string[] = ['org'];

/** What every plan has. */
export const planRequest = ({ caller }: OperationRequest): OperationPlan => ({
  organization: caller.principal.organization,
  caller,
});

/** An id of a path. One that is no int64 cannot exist, so it is missing like any other. @throws HttpError 404 */
export function recordId(
  { definition }: Pick<OperationContext, 'definition'>,
  { id: text = '' }: OperationRequest,
): string {
  if (text === '') throw errors.noPath('. Remove the trailing slash.');
  const id = int64(text);
  if (id === undefined) throw errors.noRecord(definition.singular);
  return id;
}

/**
 * The body of a request, validated.
 * @param types the content types that it may have
 * @throws HttpError 400 with everything that is wrong
 */
export function validBody(rules: BodyRules, request: OperationRequest, types?: readonly string[]): Body {
  const body = request.body(types);
  const unexpected = request.strict ? rules.unexpected(body) : [];
  rejectRequest([...unknownParameters(request, commonParameters), ...unexpected, ...rules.validate(body)]);
  return body;
}

/** Problems for parameters that would be ignored, if the caller sent `Prefer: handling=strict`. */
export function unknownParameters(
  { strict, query }: OperationRequest,
  known: readonly string[],
): FieldIssue[] {
  if (!strict) return [];
  return Object.keys(query)
    .filter((name) => !known.includes(name))
    .map(unknownParameter(known));
}

/** @throws HttpError 400 if there are problems */
export function rejectRequest(problems: readonly FieldIssue[]): void {
  if (problems.length > 0) throw errors.invalidFields(problems);
}
