import { RE2JS } from 're2js';
import {
  customFieldName,
  customName,
  customValuesType,
  type Field,
  type FieldTypeName,
  humanize,
  noValues,
} from '../fields/index.ts';
import type { RawField, RawResource } from './definition.ts';
import { readField, reservedFieldNames } from './field.ts';

/** The types that custom fields can have. */
export const customTypes = [
  'string',
  'text',
  'integer',
  'int64',
  'number',
  'boolean',
  'date',
  'timestamp',
] as const satisfies readonly FieldTypeName[];

/** The type of a custom field. */
export type CustomTypeName = (typeof customTypes)[number];

/** The properties of a custom field. They have the same meaning as the keys of a field in YAML. */
export interface CustomFieldOptions
  extends Pick<
    RawField,
    | 'label'
    | 'help'
    | 'enum'
    | 'closed'
    | 'min'
    | 'max'
    | 'min_length'
    | 'max_length'
    | 'pattern'
    | 'format'
    | 'message'
    | 'required'
    | 'group'
  > {
  readonly type: CustomTypeName;
  readonly default?: string | number | boolean;
}

/**
 * Maximum number of instructions of a custom field's pattern. The time to match a text is proportional to this number and to the
 * text's length, and repetitions such as `{1000}` repeat instructions.
 */
const maxInstructions = 300;

/** A custom field, or the issues in its properties. */
type CustomFieldResult =
  | { readonly field: Field; readonly issues?: undefined }
  | {
      readonly field?: undefined;
      readonly issues: readonly { readonly key: string | undefined; readonly message: string }[];
    };

/**
 * Returns a custom field of a resource, checked like a field in YAML. Its stored value can always be null, because a record can
 * be older than the field.
 */
export function readCustomField(
  resource: string,
  key: string,
  options: CustomFieldOptions,
): CustomFieldResult {
  const issues: { key: string | undefined; message: string }[] = [];
  if (reservedFieldNames.has(key))
    issues.push({ key: 'name', message: `"${key}" is a reserved name. Choose another field name.` });
  const { required, group, default: absent = null } = options;
  if (required === true && group !== undefined)
    issues.push({
      key: 'group',
      message: `"${key}" is required, so callers without the group could not create records. Remove "required" or "group".`,
    });
  const isNullable = required !== true && absent === null;
  const declared = { ...options, ...(isNullable && { nullable: true }) };
  const field = readField(customFieldName(key), declared, '', (option, message) =>
    issues.push({ key: option, message }),
  );
  if (
    issues.length === 0 &&
    options.pattern !== undefined &&
    RE2JS.compile(options.pattern).programSize() > maxInstructions
  )
    issues.push({
      key: 'pattern',
      message: 'the pattern is too complex. Use lower limits for repetitions, or "max_length".',
    });
  if (field === undefined || issues.length > 0) return { issues };
  const label = field.label ?? humanize(key);
  return { field: { ...field, label, nullable: true, default: absent, custom: { resource, key } } };
}

/**
 * Returns the field that contains the values of an organization's custom fields, if the resource has it. Reports a field
 * with the same name.
 */
export function readCustomFields(
  { custom_fields: isEnabled }: RawResource,
  location: string,
  fields: readonly Field[],
  report: (field: Field, message: string) => void,
): readonly Field[] {
  if (isEnabled !== true) return [];
  for (const field of fields.filter(({ name }) => name === customName))
    report(
      field,
      `a resource with "custom_fields" cannot have a field named "${customName}". Rename the field.`,
    );
  const field: Field = {
    name: customName,
    location,
    typeName: 'json',
    type: customValuesType,
    description: "The values of the organization's own fields.",
    readOnly: false,
    nullable: false,
    required: false,
    default: noValues,
    unique: false,
    sensitive: false,
  };
  return [field];
}
