import {
  type CustomFieldOptions,
  customTypes,
  type ResourceDefinition,
  readCustomField,
} from '../../../engine/definition/index.ts';
import type { FieldIssue } from '../../../engine/errors.ts';
import { textFormatNames } from '../../../engine/fields/index.ts';
import { fieldGroups, maxHints } from '../../../engine/records/index.ts';
import { hintFor } from '../../../engine/yaml/index.ts';

/** Maximum length of the values of a custom field, in characters, and the maximum by default. */
const lengths = { string: { default: 255, max: 10_000 }, text: { default: 10_000, max: 10_000 } } as const;
const [maxValues, maxValueLength] = [100, 100];
/** Maximum length of a default, in characters. */
const maxDefaultLength = 1000;

/** A property of a custom field in a request. */
interface Property {
  /** Completes "<property> must be …". */
  readonly expected: string;
  readonly isValid: (value: unknown) => boolean;
}

const text = (max: number): Property => ({
  expected: `a text of 1 to ${max} characters without spaces at its ends`,
  isValid: (value) =>
    typeof value === 'string' &&
    value !== '' &&
    value.trim() === value &&
    value.length <= max &&
    !/[\0\n\r]/.test(value),
});

const length: Property = {
  expected: `an integer from 1 to ${lengths.text.max}`,
  isValid: (value) => Number.isInteger(value) && Number(value) >= 1 && Number(value) <= lengths.text.max,
};

const limit: Property = {
  expected: 'a number between -(2^53 - 1) and 2^53 - 1',
  isValid: (value) => typeof value === 'number' && Math.abs(value) <= Number.MAX_SAFE_INTEGER,
};

const flag: Property = {
  expected: 'true or false',
  isValid: (value) => typeof value === 'boolean',
};

const oneOf = (names: readonly string[]): Property => ({
  expected: `one of ${names.join(', ')}`,
  isValid: (value) => typeof value === 'string' && names.includes(value),
});

/** The properties that a request can contain, by name. */
const properties: Readonly<Record<keyof CustomFieldOptions, Property>> = {
  type: oneOf(customTypes),
  label: text(60),
  help: text(300),
  enum: {
    expected: `a list of 1 to ${maxValues} different texts of at most ${maxValueLength} characters`,
    isValid: (value) =>
      Array.isArray(value) &&
      value.length > 0 &&
      value.length <= maxValues &&
      new Set(value).size === value.length &&
      value.every((item) => text(maxValueLength).isValid(item)),
  },
  closed: flag,
  min: limit,
  max: limit,
  min_length: length,
  max_length: length,
  pattern: text(300),
  format: oneOf(textFormatNames),
  message: text(200),
  required: flag,
  default: {
    expected: `a value of the type: a text of at most ${maxDefaultLength} characters, a number between -(2^53 - 1) and 2^53 - 1, true or false`,
    isValid: (value) =>
      typeof value === 'string'
        ? value.length <= maxDefaultLength
        : flag.isValid(value) || limit.isValid(value),
  },
  group: text(100),
};

const names = Object.keys(properties) as readonly (keyof CustomFieldOptions)[];
const namePattern = /^[a-z][a-z0-9_]{0,39}$/;

/** A JSON object from a request. */
type Body = Readonly<Record<string, unknown>>;

/** A custom field in a request. */
export interface CustomFieldInput {
  readonly name: string;
  readonly options: CustomFieldOptions;
}

/** A resource with custom fields. */
type ExtendedResource = Pick<ResourceDefinition, 'name' | 'fields'>;

/** Reads a new custom field, and adds the issues in it. */
export function readNewField(
  resource: ExtendedResource,
  body: Body,
  issues: FieldIssue[],
): CustomFieldInput | undefined {
  const { name } = body;
  const isNamed = typeof name === 'string' && namePattern.test(name);
  if (!isNamed)
    issues.push({
      field: 'name',
      message: 'name must be a lowercase letter followed by up to 39 letters, digits or underscores',
    });
  for (const key of Object.keys(body)) if (key !== 'name') rejectUnknown(key, ['name', ...names], issues);
  if (body.type === undefined || body.type === null)
    issues.push({ field: 'type', message: 'type is required' });
  const options = readProperties(body, {}, issues);
  return issues.length === 0 && isNamed ? checkField(resource, name, options, issues) : undefined;
}

/** Reads a change to a custom field's properties, and adds the issues in it. Null removes a property. */
export function readChange(
  resource: ExtendedResource,
  { name, options: existing }: CustomFieldInput,
  body: Body,
  issues: FieldIssue[],
): CustomFieldInput | undefined {
  const changeable = names.filter((key) => key !== 'type');
  for (const key of Object.keys(body)) {
    if ((key === 'name' && body.name === name) || (key === 'type' && body.type === existing.type)) continue;
    if (key === 'name' || key === 'type')
      issues.push({ field: key, message: `${key} cannot be changed. Create another field instead.` });
    else rejectUnknown(key, changeable, issues);
  }
  const options = readProperties(body, existing, issues);
  return issues.length === 0 ? checkField(resource, name, options, issues) : undefined;
}

function rejectUnknown(key: string, known: readonly string[], issues: FieldIssue[]): void {
  if (known.includes(key)) return;
  const field = key.slice(0, 60);
  const similar = issues.length < maxHints ? hintFor(field, known) : undefined;
  const hint = similar ?? `Properties: ${known.join(', ')}.`;
  issues.push({ field, message: `${field} is not a property of custom fields. ${hint}`, hint });
}

/** Returns the existing properties with the changes in a body. */
function readProperties(
  body: Body,
  existing: Partial<CustomFieldOptions>,
  issues: FieldIssue[],
): CustomFieldOptions {
  const options: Record<string, unknown> = { ...existing };
  for (const key of names) {
    const value = body[key];
    if (value === undefined) continue;
    if (value === null) delete options[key];
    else if (properties[key].isValid(value)) options[key] = value;
    else issues.push({ field: key, message: `${key} must be ${properties[key].expected}` });
  }
  const { type } = options;
  if ((type === 'string' || type === 'text') && options.max_length === undefined)
    options.max_length = Math.max(lengths[type].default, Number(options.min_length ?? 0));
  return options as unknown as CustomFieldOptions;
}

/** Checks the properties as those of a field in YAML. */
function checkField(
  resource: ExtendedResource,
  name: string,
  options: CustomFieldOptions,
  issues: FieldIssue[],
): CustomFieldInput | undefined {
  const { group } = options;
  const groups = fieldGroups(resource);
  if (group !== undefined && !groups.includes(group)) {
    const available = groups.length === 0 ? 'It has none.' : `Available: ${groups.join(', ')}.`;
    const hint = hintFor(group, groups) ?? available;
    const message = `"${group}" is not a field group of ${resource.name}. ${hint}`;
    issues.push({ field: 'group', message, hint });
  }
  const result = readCustomField(resource.name, name, options);
  if (result.issues === undefined) return issues.length === 0 ? { name, options } : undefined;
  issues.push(...result.issues.map(({ key = 'type', message }) => ({ field: key, message })));
  return undefined;
}
