import type { ResourceDefinition } from '../definition/index.ts';
import {
  anyCurrency,
  type Field,
  formatReference,
  isRecordReference,
  refersToUser,
  rulesOf,
} from '../fields/index.ts';
import { bodyRules } from '../records/index.ts';
import { linesSchema, pascal, projectionSchemaName } from './schemas.ts';

/** A sample record from a YAML file, with a subset of its fields. */
export type Sample = Readonly<Record<string, unknown>>;

/**
 * Returns examples, keyed by schema name.
 * @param sample a realistic record. Missing values are generated from the field types.
 */
export function recordExamples(
  definition: ResourceDefinition,
  sample?: Sample,
): Readonly<Record<string, unknown>> {
  const recordName = pascal(definition.singular);
  const input = inputExample(definition, sample);
  const record = Object.fromEntries(
    definition.fields.map((field) => [field.name, input[field.name] ?? storedValue(field, sample)]),
  );
  const [last] = Object.entries(input).slice(-1);
  const patch = last === undefined ? {} : Object.fromEntries([last]);
  return {
    ...sharedExamples,
    [`${recordName}Batch`]: { records: [input, input] },
    [`${recordName}BatchPatch`]: { records: [{ id: 1, ...patch }] },
    [recordName]: record,
    [projectionSchemaName(recordName)]: record,
    [`${recordName}Input`]: input,
    [`${recordName}Patch`]: patch,
    [linesSchema(recordName, 'ndjson')]: `${JSON.stringify(input)}\n`,
    [linesSchema(recordName, 'csv')]: `${Object.keys(input).join(',')}\r\n${Object.entries(input)
      .map(([name, value]) => cell(formatted(definition, name, value)))
      .join(',')}\r\n`,
    ...(definition.aggregates !== undefined && {
      [`${recordName}Aggregates`]: { data: [{ 'count()': 1 }] },
      [linesSchema(`${recordName}Aggregates`, 'ndjson')]: '{"count()":1}\n',
      [linesSchema(`${recordName}Aggregates`, 'csv')]: 'count()\r\n1\r\n',
    }),
    [`${recordName}Query`]: {},
    [`${recordName}QueryPage`]: { data: [record], page: 1, per_page: definition.page.size, next: null },
    [`${recordName}List`]: { data: [record], page: 1, per_page: definition.page.size },
  };
}

/** Returns a value as in a CSV file if its text differs from its JSON. */
const formatted = ({ fields }: ResourceDefinition, name: string, value: unknown): unknown => {
  const { type, alternatives } = fields.find((field) => field.name === name) ?? {};
  if (alternatives !== undefined && isRecordReference(value)) return formatReference(value);
  return type?.form.format?.(value) ?? value;
};

const cell = (value: unknown): string =>
  typeof value === 'string' ? `"${value.replaceAll('"', '""')}"` : String(value ?? '');

/** Examples for the schemas shared by all resources. */
const sharedExamples = {
  Changes: {
    data: [
      {
        position: '73921-481',
        at: '2026-03-01T09:30:00Z',
        actor: { kind: 'key', id: 7, name: 'Website' },
        request_id: '5f1c0a9e-6d0b-4c4e-9f39-0d2a6c1b7e55',
        resource: 'orders',
        id: 5,
        action: 'update',
        version: 2,
        changed: ['name'],
        before: { id: 5, name: 'Analytical Engine' },
        after: { id: 5, name: 'Analytical Engines' },
      },
    ],
  },
  BatchIds: { ids: [1] },
  MergeSource: { from: 2 },
  BulkResult: { count: 1, confirm: 'WzEsMTc5NTc0NDgwMDAwMF0.NTcxMjk3YTQ5' },
  BatchResults: {
    results: [{ status: 201, id: 1 }],
  },
  ImportReport: {
    created: 1,
    updated: 0,
    failed: 0,
    stopped: false,
    dry_run: false,
    ignored: [],
    lines: [],
    truncated: false,
  },
};

/** Returns a body that every instance accepts. It omits optional references, because IDs differ between instances. */
function inputExample({ fields }: ResourceDefinition, sample: Sample | undefined): Sample {
  const writable = fields.filter(
    (field) => !field.readOnly && (field.required || (field.type.refers !== true && !refersToUser(field))),
  );
  return Object.fromEntries(
    writable.flatMap((field) => {
      const value = sample === undefined ? exampleValue(field) : sample[field.name];
      const example = value ?? (field.required ? exampleValue(field) : undefined);
      return example === undefined ? [] : [[field.name, example]];
    }),
  );
}

/** Returns a valid value for a field, or undefined if neither its YAML nor its type provides a value. */
function exampleValue(field: Field): unknown {
  const { name, values, type, transitions } = field;
  const rules = rulesOf(field);
  const [alternative] = field.alternatives ?? [];
  if (alternative !== undefined) return { resource: alternative.to, id: 1 };
  if (type.element !== undefined) return [values?.list[0] ?? type.element.example];
  if (type.users === true || type.refers === true) return 1;
  const candidates = [
    ...(transitions?.initial ?? []),
    ...(values?.list ?? []),
    ...type.examples,
    ...rules.flatMap(({ examples = [] }) =>
      type.priced === true
        ? examples.map((amount) => ({ amount, currency: exampleCurrency(field) }))
        : examples,
    ),
  ];
  if (rules.length === 0 && field.schema === undefined) return candidates[0];
  const { validate } = bodyRules([field]);
  return candidates.find((value) => validate({ [name]: value }).length === 0);
}

const exampleCurrency = ({ currency }: Field): string =>
  currency === undefined || currency === anyCurrency ? 'EUR' : currency;

/** Returns an example of the value stored if the request body omits a field. */
function storedValue(field: Field, sample: Sample | undefined): unknown {
  if (field.set === 'created' || field.set === 'updated')
    return sample?.[field.name] ?? '2026-03-01T09:30:00Z';
  if (field.set !== undefined) return 1;
  if (field.readOnly && field.type.refers !== true && sample?.[field.name] !== undefined)
    return sample[field.name];
  return field.default ?? (field.nullable ? null : (field.type.empty ?? ''));
}
