import { RE2JS } from 're2js';
import {
  type Field,
  type FieldType,
  type FieldTypeName,
  fieldTypes,
  type ServerValue,
  validateValue,
} from '../fields/index.ts';
import { suggestion, suggestionOrList, withArticle } from '../yaml/index.ts';
import { typeAdvice } from './advice.ts';
import type { RawField } from './definition.ts';
import { readFormerName } from './former-name.ts';

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
  return advice === undefined ? suggestionOrList(type, Object.keys(fieldTypes)) : `. ${advice}`;
}

/** Reports an issue at a key of the field, or at the field's name if `key` is undefined. */
export type ReportIssue = (key: string | undefined, message: string) => void;

/**
 * Parses a field's YAML and checks everything that does not depend on other fields.
 * @returns undefined if its type is unknown
 */
export function readField(
  name: string,
  raw: RawField,
  location: string,
  report: ReportIssue,
): Field | undefined {
  if (!Object.hasOwn(fieldTypes, raw.type)) {
    report('type', `unknown type "${raw.type}"${typeHint(raw.type)}`);
    return undefined;
  }
  const typeName = raw.type as FieldTypeName;
  const type: FieldType = fieldTypes[typeName];
  const readOnly = (raw.read_only === true && raw.assignable !== true) || type.joins === true;
  // Creators and editors can be null, because API keys do not require a user and users can be deleted.
  const nullable = raw.nullable === true || raw.set === 'creator' || raw.set === 'editor';

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
  if (type.bounded !== true) {
    for (const key of ['max_length', 'pattern', 'enum', 'suggested', 'lookup'] as const) {
      if (raw[key] === undefined) continue;
      const hint = key === 'enum' ? '. Use "type: string" for a list of values.' : '';
      report(key, `${withArticle(raw.type)} field cannot have "${key}"${hint}`);
    }
  }
  if (raw.enum !== undefined && raw.suggested !== undefined) {
    report('suggested', '"enum" and "suggested" are mutually exclusive: remove one');
  }
  checkValues(raw, report);
  const patternIssue = raw.pattern === undefined ? undefined : findPatternIssue(raw.pattern);
  if (patternIssue !== undefined) {
    report('pattern', `"pattern" is not a valid RE2 regular expression: ${patternIssue}`);
  }
  if (type.joins === true) {
    for (const key of ['nullable', 'default', 'required', 'set'] as const) {
      if (raw[key] !== undefined) report(key, `${withArticle(raw.type)} field cannot have "${key}"`);
    }
  } else {
    checkValue(raw, type, readOnly, report);
  }
  if (raw.assignable === true && raw.set !== 'creator')
    report('assignable', '"assignable" needs "set: creator"');
  if (raw.set !== undefined && serverTypes[raw.set] !== typeName) {
    report('set', `"set: ${raw.set}" needs "type: ${serverTypes[raw.set]}"`);
  }
  const field: Field = {
    name,
    location,
    typeName,
    type,
    description: raw.description ?? '',
    readOnly,
    nullable,
    required: raw.required === true,
    default: nullable ? null : (raw.default ?? type.empty ?? null),
    ...(raw.enum === undefined ? {} : { values: { list: raw.enum, closed: true } }),
    ...(raw.suggested === undefined ? {} : { values: { list: raw.suggested, closed: false } }),
    ...(raw.max_length === undefined ? {} : { maxLength: raw.max_length }),
    ...(raw.pattern === undefined ? {} : { pattern: raw.pattern }),
    ...(raw.to === undefined ? {} : { to: raw.to }),
    ...(raw.through === undefined ? {} : { through: raw.through }),
    ...(raw.show === undefined ? {} : { show: raw.show }),
    ...(raw.set === undefined ? {} : { set: raw.set }),
    unique: raw.unique === true,
    sensitive: raw.sensitive === true,
    ...readFormerName(name, raw, report),
    ...(raw.lookup === undefined ? {} : { lookup: raw.lookup }),
  };
  if (raw.retired === true) {
    if (type.joins === true)
      report(
        'retired',
        `${withArticle(raw.type)} field has no stored values to keep. Remove the field instead.`,
      );
    if (raw.set !== undefined) report('retired', 'a field with "set" cannot be retired');
    if (raw.alias === true) report('alias', 'a retired field cannot have an alias');
  }
  if (type.joins !== true) checkDefault(raw, field, patternIssue === undefined, report);
  return field;
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
  if (type.refers === true && !nullable) {
    report(
      undefined,
      'a reference needs "nullable: true", because it becomes null when its record is deleted',
    );
  }
  if (raw.set !== undefined && raw.read_only !== true) report('set', '"set" needs "read_only: true"');
  const conflictingKeys = [
    ...(readOnly ? ['read_only'] : []),
    ...(nullable ? ['nullable'] : []),
    ...(raw.default === undefined ? [] : ['default']),
  ];
  for (const key of raw.required === true ? conflictingKeys : []) {
    report('required', `"required" and "${key}" are mutually exclusive: remove one`);
  }
  if (raw.default !== undefined || nullable || type.empty !== undefined) return;
  if (raw.required !== true && raw.set === undefined && type.refers !== true) {
    report(undefined, `${withArticle(raw.type)} field needs "nullable: true", "required: true" or a default`);
  }
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
  if (
    typeof raw.default === 'number' &&
    Number.isInteger(raw.default) &&
    !Number.isSafeInteger(raw.default)
  ) {
    report('default', `the default must be between -(2^53 - 1) and 2^53 - 1`);
    return;
  }
  const isValid = (value: unknown) => validateValue({ ...checkedField, required: true }, value) === undefined;
  const issue = validateValue({ ...checkedField, required: true }, raw.default);
  if (issue !== undefined) report('default', `the default ${issue}${defaultHint(raw.default, isValid)}`);
}

/** Returns a sentence that suggests a valid notation for an invalid default, or an empty string. */
function defaultHint(value: string | number | boolean, isValid: (value: unknown) => boolean): string {
  if (value === 'now' || value === 'today') {
    return '. A default is a fixed value. For the time of creation, use "created_at" from common.yaml.';
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
