import { RE2JS } from 're2js';
import {
  type Field,
  type FieldType,
  type FieldTypeName,
  fieldTypeOf,
  fieldTypes,
  type ServerValue,
  validateValue,
} from '../fields/index.ts';
import { suggestion, withArticle } from '../yaml/index.ts';
import { typeAdvice } from './advice.ts';
import { checkDefaultFrom } from './default-values.ts';
import type { RawField, ReportIssue } from './definition.ts';
import {
  checkDerived,
  derivedKey,
  isDerivedNullable,
  isStored,
  presentKeys,
  withoutStorage,
} from './derived.ts';
import { readFormerName } from './former-name.ts';
import { checkEmptyValue, readRules } from './rules.ts';
import { readSequence, withoutSequenceConflicts } from './sequences.ts';
import { readTransitions } from './transitions.ts';
import { readTypeOptions } from './type-options.ts';

/** The field type required by each server-set value. */
export const serverTypes: Readonly<Record<ServerValue, FieldTypeName>> = {
  id: 'int64',
  organization: 'int64',
  creator: 'int64',
  editor: 'int64',
  created: 'timestamp',
  updated: 'timestamp',
};
/** Properties that every JavaScript object inherits, and the key that `?expand=` adds to records. */
export const reservedFieldNames: ReadonlySet<string> = new Set(['constructor', 'prototype', 'expanded']);

/** Returns a sentence that suggests a similar type or lists all types. */
function typeHint(type: string): string {
  const advice = typeAdvice(type);
  if (advice !== undefined) return `. ${advice}`;
  const names = Object.keys(fieldTypes);
  return suggestion(type, names) || `. Available: ${names.join(', ')}`;
}

/**
 * Parses a field's YAML and checks everything that does not depend on other fields.
 * @returns undefined if its type is unknown
 */
export function readField(
  name: string,
  declared: RawField,
  location: string,
  report: ReportIssue,
): Field | undefined {
  const raw = withoutSequenceConflicts(declared, report);
  if (!Object.hasOwn(fieldTypes, raw.type)) {
    report('type', `unknown type "${raw.type}"${typeHint(raw.type)}`);
    return undefined;
  }
  const typeName = raw.type as FieldTypeName;
  const options = readTypeOptions(raw, report);
  const valueType = fieldTypeOf(typeName, options);
  const derived = derivedKey(raw);
  if (derived !== undefined) checkDerived(raw, valueType, derived, report);
  const type = withoutStorage(valueType, raw);
  const hasValues = isStored(raw);
  const isNumbered = raw.sequence !== undefined;
  const readOnly = (raw.read_only === true && raw.assignable !== true) || !hasValues || isNumbered;
  // Creators and editors can be null, because API keys do not require a user and users can be deleted. Records that existed
  // before a field had a sequence have no value.
  const nullable =
    derived === undefined
      ? raw.nullable === true || raw.set === 'creator' || raw.set === 'editor' || isNumbered
      : isDerivedNullable(raw, valueType);

  if (reservedFieldNames.has(name))
    report(undefined, `"${name}" is a reserved name. Choose another field name.`);
  for (const [key, ability] of [
    ['to', type.refers],
    ['through', type.joins],
    ['show', type.joins],
  ] as const) {
    if (ability === true && raw[key] === undefined)
      report(undefined, `${withArticle(raw.type)} field needs "${key}"`);
    if (ability !== true && raw[key] !== undefined)
      report(key, `${withArticle(raw.type)} field cannot have "${key}"`);
  }
  if (type.refers !== true && raw.on_delete !== undefined)
    report('on_delete', `${withArticle(raw.type)} field cannot have "on_delete"`);
  if (type.element !== undefined) checkListKeys(raw, type, report);
  if (type.bounded !== true) {
    for (const key of ['enum', 'suggested', 'transitions', 'initial', 'lookup'] as const) {
      if (raw[key] === undefined || (key === 'enum' && type.listed === true)) continue;
      const hint = key === 'enum' ? '. Use "type: string" for a list of values.' : '';
      report(key, `${withArticle(raw.type)} field cannot have "${key}"${hint}`);
    }
  }
  if (raw.enum !== undefined && raw.suggested !== undefined) {
    report('suggested', '"enum" and "suggested" are mutually exclusive: remove one');
  }
  const rules = derived === undefined ? readRules(raw, type, report) : {};
  checkValues(raw, report);
  const patternIssue = raw.pattern === undefined ? undefined : findPatternIssue(raw.pattern);
  if (patternIssue !== undefined) {
    report('pattern', `"pattern" is not a valid RE2 regular expression: ${patternIssue}`);
  }
  if (type.joins === true) {
    const invalidKeys = presentKeys(
      raw,
      ['nullable', 'default', 'default_from', 'required', 'set'],
      ['unique', 'assignable'],
    );
    for (const key of invalidKeys) report(key, `${withArticle(raw.type)} field cannot have "${key}"`);
  } else if (hasValues) {
    checkValue(raw, type, readOnly, report);
  }
  if (type.users === true && raw.default !== undefined) {
    report('default', `${withArticle(raw.type)} field cannot have "default"`);
  }
  if (raw.assignable === true && raw.set !== 'creator' && hasValues)
    report('assignable', '"assignable" needs "set: creator"');
  if (raw.set !== undefined && serverTypes[raw.set] !== typeName) {
    report('set', `"set: ${raw.set}" needs "type: ${serverTypes[raw.set]}"`);
  }
  const field: Field = {
    name,
    location,
    typeName,
    type,
    ...options,
    description: raw.description ?? raw.help ?? '',
    ...(raw.label === undefined ? {} : { label: raw.label }),
    ...(raw.help === undefined ? {} : { help: raw.help }),
    readOnly,
    nullable,
    required: raw.required === true,
    default: nullable ? null : (raw.default ?? type.empty ?? null),
    ...readValues(raw, type, report),
    ...readTransitions(raw, report),
    ...readSequence(raw),
    ...rules,
    ...(typeof raw.to === 'string' && { to: raw.to }),
    ...(type.refers === true && { onDelete: raw.on_delete ?? 'clear' }),
    ...(raw.through === undefined ? {} : { through: raw.through }),
    ...(raw.show === undefined ? {} : { show: raw.show }),
    ...(raw.set === undefined ? {} : { set: raw.set }),
    unique: raw.unique === true && hasValues,
    sensitive: raw.sensitive === true,
    ...readFormerName(name, raw, report),
    ...(raw.group === undefined ? {} : { group: raw.group }),
    ...(raw.lookup === undefined ? {} : { lookup: raw.lookup }),
  };
  if (raw.retired === true) {
    if (!hasValues) {
      const kind = derived === undefined ? `${withArticle(raw.type)} field` : `a field with "${derived}"`;
      report('retired', `${kind} has no stored values to keep. Remove the field instead.`);
    }
    if (raw.set !== undefined) report('retired', 'a field with "set" cannot be retired');
    if (raw.alias === true) report('alias', 'a retired field cannot have an alias');
  }
  if (!hasValues) return field;
  checkDefaultFrom(raw, field, report);
  checkEmptyValue(raw, field, report);
  if (type.element === undefined) checkDefault(raw, field, patternIssue === undefined, report);
  return field;
}

/** Returns a field's known values. */
function readValues(raw: RawField, type: FieldType, report: ReportIssue): Pick<Field, 'values'> {
  const { enum: list, suggested, closed, nullable, required, default: value } = raw;
  if (closed === true && list === undefined) {
    const hint = suggested === undefined ? '' : '. Use "enum" instead of "suggested".';
    report('closed', `"closed" needs "enum"${hint}`);
  }
  if (list === undefined)
    return suggested === undefined ? {} : { values: { list: suggested, isSuggestion: true } };
  const isEmptyDefault =
    type.element === undefined && nullable !== true && required !== true && value === undefined;
  const accepted = isEmptyDefault && !list.includes('') ? [...list, ''] : list;
  return { values: { list, isSuggestion: false, ...(closed === true && { accepted }) } };
}

/** Checks that the known values are distinct and include the default. */
function checkValues({ enum: enumValues, suggested, default: value }: RawField, report: ReportIssue): void {
  const key = enumValues === undefined ? 'suggested' : 'enum';
  const seen = new Map<string, string>();
  for (const item of enumValues ?? suggested ?? []) {
    const twin = seen.get(normalize(item));
    if (twin === undefined) seen.set(normalize(item), item);
    else report(key, `"${item}" and "${twin}" differ only in case or spaces: remove one`);
  }
  if (enumValues === undefined || typeof value !== 'string' || enumValues.includes(value)) return;
  report('default', `the default "${value}" is not in "enum"${suggestion(value, enumValues)}`);
}

/** Converts a value to lowercase and collapses whitespace. */
const normalize = (value: string): string => value.toLowerCase().replace(/\s+/g, ' ').trim();

/** Checks that the field has a value even if a request body omits the field. */
function checkValue(raw: RawField, type: FieldType, readOnly: boolean, report: ReportIssue): void {
  const nullable = raw.nullable === true;
  if (type.refers === true && type.element === undefined) checkDeleteRule(raw, report);
  if (raw.set !== undefined && raw.read_only !== true) report('set', '"set" needs "read_only: true"');
  const conflictingKeys = [
    ...(readOnly ? ['read_only'] : []),
    ...(nullable ? ['nullable'] : []),
    ...(raw.default === undefined ? [] : ['default']),
  ];
  for (const key of raw.required === true ? conflictingKeys : []) {
    report('required', `"required" and "${key}" are mutually exclusive: remove one`);
  }
  if (raw.default !== undefined || raw.default_from !== undefined || nullable || type.empty !== undefined)
    return;
  if (raw.required !== true && raw.set === undefined && type.refers !== true) {
    const options =
      type.users === true
        ? '"nullable: true" or "required: true"'
        : '"nullable: true", "required: true" or a default';
    report(undefined, `${withArticle(raw.type)} field needs ${options}`);
  }
}

/** Checks that a field whose values are lists has no key that needs a single value. */
function checkListKeys(raw: RawField, { refers }: FieldType, report: ReportIssue): void {
  for (const key of ['nullable', 'required', 'default'] as const) {
    if (raw[key] !== undefined && raw[key] !== false)
      report(
        key,
        `${withArticle(raw.type)} field cannot have "${key}", because an empty list is a valid value`,
      );
  }
  if (refers === true && raw.on_delete === 'cascade')
    report(
      'on_delete',
      `${withArticle(raw.type)} field cannot have "on_delete: cascade". Use "clear" or "restrict".`,
    );
}

/** Checks that a reference can have the value that it gets when the referenced record is deleted. */
function checkDeleteRule(raw: RawField, report: ReportIssue): void {
  const { nullable, required, on_delete: onDelete = 'clear' } = raw;
  if (nullable !== true && required !== true)
    report(undefined, 'a reference needs "nullable: true" or "required: true"');
  if (required !== true || onDelete !== 'clear') return;
  report(
    raw.on_delete === undefined ? 'required' : 'on_delete',
    'a required reference cannot become null when its record is deleted. Use "on_delete: restrict" or "on_delete: cascade".',
  );
}

/** Validates a default by the same rules as a value in a request body. */
function checkDefault(raw: RawField, field: Field, hasValidPattern: boolean, report: ReportIssue): void {
  if (raw.default === undefined) return;
  if (field.nullable) {
    report('default', '"nullable" and "default" are mutually exclusive: remove one');
    return;
  }
  const { pattern, ...rest } = field;
  const checkedField = hasValidPattern ? field : rest;
  // The YAML parser returns JavaScript numbers, which are inexact beyond this range.
  if (hasInexactInteger(raw.default)) {
    const subject = typeof raw.default === 'object' ? 'integers in the default' : 'the default';
    report('default', `${subject} must be between -(2^53 - 1) and 2^53 - 1`);
    return;
  }
  if (!isJson(raw.default)) {
    report('default', `the default must be ${field.type.expected}`);
    return;
  }
  const isValid = (value: unknown) => validateValue({ ...checkedField, required: true }, value) === undefined;
  const issue = validateValue({ ...checkedField, required: true }, raw.default);
  const space = issue !== undefined && /^[.[]/.test(issue) ? '' : ' ';
  if (issue !== undefined)
    report('default', `the default${space}${issue}${defaultHint(raw.default, isValid)}`);
}

/** Returns whether a value from YAML has an equivalent in JSON. Values with a tag can be instances of classes. */
const isJson = (value: unknown): boolean =>
  typeof value !== 'object' ||
  value === null ||
  ((Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype) &&
    Object.values(value).every(isJson));

/** Returns whether a value from YAML contains an integer that JavaScript cannot represent exactly. */
const hasInexactInteger = (value: unknown): boolean =>
  typeof value === 'object' && value !== null
    ? Object.values(value).some(hasInexactInteger)
    : Number.isInteger(value) && !Number.isSafeInteger(value);

/** Returns a sentence that suggests a valid notation for an invalid default, or an empty string. */
function defaultHint(value: unknown, isValid: (value: unknown) => boolean): string {
  if (value === 'now' || value === 'today') {
    return `. A default is a fixed value. Use "default_from: ${value}".`;
  }
  const isLiteral = typeof value === 'string' && /^(true|false|-?(0|[1-9]\d{0,14})(\.\d+)?)$/.test(value);
  return isLiteral && isValid(JSON.parse(value)) ? `. Write ${value} without quotes.` : '';
}

/** Returns the reason a pattern is invalid, or undefined if it is valid. */
function findPatternIssue(pattern: string): string | undefined {
  try {
    RE2JS.compile(pattern);
    return undefined;
  } catch (cause) {
    const message = (cause as Error).message.replace(/^error parsing regexp: /, '');
    return /\(\?<?[=!]/.test(pattern) ? 'lookahead and lookbehind are not supported' : message;
  }
}
