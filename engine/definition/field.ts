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

/** The field type that each server-set value requires. */
export const serverTypes: Readonly<Record<ServerValue, FieldTypeName>> = {
  id: 'int64',
  organization: 'int64',
  creator: 'int64',
  editor: 'int64',
  created: 'timestamp',
  updated: 'timestamp',
};
/** Names that every JavaScript object has, and the key that `?expand=` adds to a record. */
export const reservedFieldNames: ReadonlySet<string> = new Set(['constructor', 'prototype', 'expanded']);

/** Suggests a type, or lists all types. */
function typeHint(type: string): string {
  const advice = typeAdvice(type);
  return advice === undefined ? suggestionOrList(type, Object.keys(fieldTypes)) : `. ${advice}`;
}

/** Reports an issue at a key of the field, or at the field's name if `key` is undefined. */
export type ReportIssue = (key: string | undefined, message: string) => void;

/**
 * Reads a field from its YAML and checks everything that does not depend on other fields.
 * @returns undefined if its type is unknown
 */
export function readField(
  name: string,
  raw: RawField,
  place: string,
  report: ReportIssue,
): Field | undefined {
  if (!Object.hasOwn(fieldTypes, raw.type)) {
    report('type', `unknown type "${raw.type}"${typeHint(raw.type)}`);
    return undefined;
  }
  const typeName = raw.type as FieldTypeName;
  const type: FieldType = fieldTypes[typeName];
  const readOnly = raw.read_only === true || type.joins === true;
  // Both can be null: API keys do not need a user, and users can be deleted.
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
    report('suggested', '"enum" and "suggested" exclude each other: remove one');
  }
  checkValues(raw, report);
  const wrongPattern = raw.pattern === undefined ? undefined : patternProblem(raw.pattern);
  if (wrongPattern !== undefined) {
    report('pattern', `"pattern" is not a valid RE2 regular expression: ${wrongPattern}`);
  }
  if (type.joins === true) {
    for (const key of ['nullable', 'default', 'required', 'set'] as const) {
      if (raw[key] !== undefined) report(key, `${withArticle(raw.type)} field cannot have "${key}"`);
    }
  } else {
    checkValue(raw, type, readOnly, report);
  }
  if (raw.set !== undefined && serverTypes[raw.set] !== typeName) {
    report('set', `"set: ${raw.set}" needs "type: ${serverTypes[raw.set]}"`);
  }
  const field: Field = {
    name,
    place,
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
  if (type.joins !== true) checkDefault(raw, field, wrongPattern === undefined, report);
  return field;
}

/** Checks that the values are distinguishable, and that the default is one of them. */
function checkValues({ enum: closed, suggested, default: value }: RawField, report: ReportIssue): void {
  const key = closed === undefined ? 'suggested' : 'enum';
  const seen = new Map<string, string>();
  for (const item of closed ?? suggested ?? []) {
    const twin = seen.get(bare(item));
    if (twin === undefined) seen.set(bare(item), item);
    else report(key, `"${item}" and "${twin}" differ only in case or spaces: remove one`);
  }
  if (closed === undefined || typeof value !== 'string' || closed.includes(value)) return;
  report('default', `the default "${value}" is not in "enum"${suggestion(value, closed)}`);
}

const bare = (value: string): string => value.toLowerCase().replace(/\s+/g, ' ').trim();

/** Checks that the field has a value if a request body omits it. */
function checkValue(raw: RawField, type: FieldType, readOnly: boolean, report: ReportIssue): void {
  const nullable = raw.nullable === true;
  if (type.refers === true && !nullable) {
    report(
      undefined,
      'a reference needs "nullable: true", because it becomes null when its record is deleted',
    );
  }
  if (raw.set !== undefined && !readOnly) report('set', '"set" needs "read_only: true"');
  const excluded = [
    ...(readOnly ? ['read_only'] : []),
    ...(nullable ? ['nullable'] : []),
    ...(raw.default === undefined ? [] : ['default']),
  ];
  for (const key of raw.required === true ? excluded : []) {
    report('required', `"required" and "${key}" exclude each other: remove one`);
  }
  if (raw.default !== undefined || nullable || type.empty !== undefined) return;
  if (raw.required !== true && raw.set === undefined && type.refers !== true) {
    report(undefined, `${withArticle(raw.type)} field needs "nullable: true", "required: true" or a default`);
  }
}

/** Validates a default like a value in a request body. */
function checkDefault(raw: RawField, field: Field, patternIsRight: boolean, report: ReportIssue): void {
  if (raw.default === undefined) return;
  if (field.nullable) {
    report('default', '"nullable" and "default" exclude each other: remove one');
    return;
  }
  const { pattern, ...rest } = field;
  const validated = patternIsRight ? field : rest;
  // The YAML parser returns JavaScript numbers, which are inexact beyond this range.
  if (
    typeof raw.default === 'number' &&
    Number.isInteger(raw.default) &&
    !Number.isSafeInteger(raw.default)
  ) {
    report('default', `the default must be between -(2^53 - 1) and 2^53 - 1`);
    return;
  }
  const isValid = (value: unknown) => validateValue({ ...validated, required: true }, value) === undefined;
  const issue = validateValue({ ...validated, required: true }, raw.default);
  if (issue !== undefined) report('default', `the default ${issue}${defaultHint(raw.default, isValid)}`);
}

/** Suggests how to write an invalid default. */
function defaultHint(value: string | number | boolean, isValid: (value: unknown) => boolean): string {
  if (value === 'now' || value === 'today') {
    return '. A default is a fixed value. For the time of creation, use "created_at" from common.yaml.';
  }
  const isLiteral = typeof value === 'string' && /^(true|false|-?(0|[1-9]\d{0,14})(\.\d+)?)$/.test(value);
  return isLiteral && isValid(JSON.parse(value)) ? `. Write ${value} without quotes.` : '';
}

/** Returns why a pattern is invalid, or undefined. */
function patternProblem(pattern: string): string | undefined {
  try {
    RE2JS.compile(pattern);
    return undefined;
  } catch (cause) {
    const message = (cause as Error).message.replace(/^error parsing regexp: /, '');
    return /\(\?<?[=!]/.test(pattern) ? 'lookahead and lookbehind are not supported' : message;
  }
}
