import { RE2JS } from 're2js';
import {
  type Field,
  type FieldType,
  type FieldTypeName,
  fieldTypes,
  type ServerValue,
  validateValue,
} from '../fields/index.ts';
import { suggestion, suggestionOrList } from '../yaml/index.ts';
import { typeAdvice } from './advice.ts';
import type { RawField } from './definition.ts';
import { readFormerName } from './former-name.ts';

/** The type that a field needs for what the server writes into it. */
export const serverTypes: Readonly<Record<ServerValue, FieldTypeName>> = {
  id: 'int64',
  organization: 'int64',
  creator: 'int64',
  editor: 'int64',
  created: 'timestamp',
  updated: 'timestamp',
};
/** Names with a meaning on every JavaScript object, and the key that `?expand=` adds to a record. */
export const reservedFieldNames: ReadonlySet<string> = new Set(['constructor', 'prototype', 'expanded']);

/** The type that was probably meant, or all that there are. */
function typeHint(type: string): string {
  const advice = typeAdvice(type);
  return advice === undefined ? suggestionOrList(type, Object.keys(fieldTypes)) : `: ${advice}`;
}

/** Reports a mistake at a key of the field, or at the field's name where `key` is undefined. */
export type ReportIssue = (key: string | undefined, message: string) => void;

/**
 * A field from its YAML, with the checks that need nothing else.
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
  // A record may have neither: keys need no user, and users can be deleted.
  const nullable = raw.nullable === true || raw.set === 'creator' || raw.set === 'editor';

  if (reservedFieldNames.has(name)) report(undefined, `"${name}" cannot be a field name`);
  for (const [key, ability] of [
    ['to', type.refers],
    ['through', type.joins],
    ['show', type.joins],
  ] as const) {
    if (ability === true && raw[key] === undefined) report(undefined, `a ${raw.type} field needs "${key}"`);
    if (ability !== true && raw[key] !== undefined) report(key, `a ${raw.type} field has no "${key}"`);
  }
  if (type.bounded !== true) {
    for (const key of ['max_length', 'pattern', 'enum', 'suggested', 'lookup'] as const) {
      if (raw[key] !== undefined) report(key, `a ${raw.type} field has no "${key}"`);
    }
  }
  if (raw.enum !== undefined && raw.suggested !== undefined) {
    report('suggested', 'give "enum" or "suggested", not both');
  }
  checkValues(raw, report);
  const wrongPattern = raw.pattern === undefined ? undefined : patternProblem(raw.pattern);
  if (wrongPattern !== undefined) {
    report('pattern', `no regular expression that runs in linear time: ${wrongPattern}`);
  }
  if (type.joins === true) {
    for (const key of ['nullable', 'default', 'required', 'set'] as const) {
      if (raw[key] !== undefined) report(key, `a ${raw.type} field has no "${key}"`);
    }
  } else {
    checkValue(raw, type, readOnly, report);
  }
  if (raw.set !== undefined && serverTypes[raw.set] !== typeName) {
    report('set', `"set: ${raw.set}" needs the type ${serverTypes[raw.set]}`);
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
    if (type.joins === true) report('retired', `a ${raw.type} field stores nothing: take it out`);
    if (raw.set !== undefined) report('retired', 'a field that the server sets cannot be retired');
    if (raw.alias === true) report('alias', 'a retired field has no name for callers');
  }
  if (type.joins !== true) checkDefault(raw, field, wrongPattern === undefined, report);
  return field;
}

/** Checks that the known values can be told apart, and that the default is one of those that reports know. */
function checkValues({ enum: closed, suggested, default: given }: RawField, report: ReportIssue): void {
  const key = closed === undefined ? 'suggested' : 'enum';
  const seen = new Map<string, string>();
  for (const value of closed ?? suggested ?? []) {
    const twin = seen.get(bare(value));
    if (twin === undefined) seen.set(bare(value), value);
    else report(key, `"${value}" and "${twin}" differ only in capitals or spaces: keep one`);
  }
  if (closed === undefined || typeof given !== 'string' || closed.includes(given)) return;
  report('default', `the default "${given}" is not in "enum"${suggestion(given, closed)}`);
}

const bare = (value: string): string => value.toLowerCase().replace(/\s+/g, ' ').trim();

/** Checks that a field without a given value has a default. */
function checkValue(raw: RawField, type: FieldType, readOnly: boolean, report: ReportIssue): void {
  const nullable = raw.nullable === true;
  if (type.refers === true && !nullable) {
    report(undefined, 'a reference needs "nullable: true": it becomes null when the record is deleted');
  }
  if (raw.set !== undefined && !readOnly) report('set', '"set" needs "read_only: true"');
  if (raw.required === true && (readOnly || nullable || raw.default !== undefined)) {
    report('required', 'a required field is not read-only, not nullable and has no default');
  }
  if (raw.default !== undefined || nullable || type.empty !== undefined) return;
  if (raw.required !== true && raw.set === undefined && type.refers !== true) {
    report(undefined, `a ${raw.type} has no empty value: give "nullable: true" or "required: true"`);
  }
}

/** A default is validated like a value in a body: otherwise it could be a value that no caller may send. */
function checkDefault(raw: RawField, field: Field, patternIsRight: boolean, report: ReportIssue): void {
  if (raw.default === undefined) return;
  if (field.nullable) {
    report('default', 'a nullable field is null when absent; it has no default');
    return;
  }
  const { pattern, ...rest } = field;
  const validated = patternIsRight ? field : rest;
  // YAML is read with JavaScript's numbers.
  if (
    typeof raw.default === 'number' &&
    Number.isInteger(raw.default) &&
    !Number.isSafeInteger(raw.default)
  ) {
    report('default', `the default must be between -(2^53 - 1) and 2^53 - 1`);
    return;
  }
  const wrong = validateValue({ ...validated, required: true }, raw.default);
  if (wrong !== undefined) report('default', `the default ${wrong}`);
}

/** Why a pattern cannot be used, or undefined. */
function patternProblem(pattern: string): string | undefined {
  try {
    RE2JS.compile(pattern);
    return undefined;
  } catch (cause) {
    return (cause as Error).message;
  }
}
