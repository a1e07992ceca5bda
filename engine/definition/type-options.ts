import {
  anyCurrency,
  type FieldType,
  type FieldTypeName,
  fieldTypes,
  isCurrency,
  schemaIssue,
  type TypeOptions,
} from '../fields/index.ts';
import { withArticle } from '../yaml/index.ts';
import type { RawField, ReportIssue } from './definition.ts';

/** Returns the keys that determine a field's type, and reports keys that the type does not support. */
export function readTypeOptions(raw: RawField, report: ReportIssue): TypeOptions {
  const type: FieldType = fieldTypes[raw.type as FieldTypeName];
  const { of, currency, schema } = raw;
  for (const [key, ability] of [
    ['of', type.listed],
    ['currency', type.priced],
    ['schema', type.nested],
  ] as const)
    if (raw[key] !== undefined && ability !== true)
      report(key, `${withArticle(raw.type)} field cannot have "${key}"`);
  if (type.priced === true && currency === undefined)
    report(
      undefined,
      'a money field needs "currency": an ISO 4217 code, for example EUR, or "any" if each record has its own',
    );
  const isKnown = currency === undefined || currency === anyCurrency || isCurrency(currency);
  if (type.priced === true && !isKnown) {
    const upper = currency.toUpperCase();
    const hint = isCurrency(upper) ? `. Write ${upper}.` : '';
    report('currency', `"currency" must be an ISO 4217 code, for example EUR, or "any"${hint}`);
  }
  if (type.listed === true && of !== undefined && of !== 'string' && raw.enum !== undefined)
    report('enum', `a list of ${of} values cannot have "enum". Use "of: string".`);
  const issue = type.nested === true && schema !== undefined ? schemaIssue(schema) : undefined;
  if (issue !== undefined) report('schema', `"schema" is not a valid JSON Schema: ${issue}`);
  return {
    ...(type.listed === true && of !== undefined && { of }),
    ...(type.priced === true && currency !== undefined && isKnown && { currency }),
    ...(type.nested === true && schema !== undefined && issue === undefined && { schema }),
  };
}
