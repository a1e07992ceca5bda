import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectFolder } from '../../engine/config/index.ts';
import { UserError } from '../../engine/errors.ts';
import { apiPrefix } from '../../engine/http/index.ts';
import { type OperatorName, operatorOf } from '../../engine/query/index.ts';
import {
  type DocumentResource,
  type OpenApiDocument,
  type Parameter,
  resolve,
  resourcesIn,
  type Schema,
} from '../../plugins/api/explorer/index.ts';
import { stringLiteral } from './client-command.ts';

/** Folder of the files that are the same for every instance, except for names. */
const templates = join(projectFolder, 'templates/n8n');

/** Files that users can edit. They are created once and never overwritten. */
export const n8nUserFiles: readonly string[] = ['package.json', 'README.md'];

/** A value of a node's description, which is written as a JavaScript literal. */
type Literal = string | number | boolean | readonly Literal[] | { readonly [key: string]: Literal };
type Property = Readonly<Record<string, Literal>>;

/** How the node converts a parameter to a value of the API. */
type Kind = 'text' | 'integer' | 'decimal' | 'boolean' | 'dateTime' | 'date' | 'ids' | 'json';

/** A field that can be written, or a filter. */
interface Input {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly kind: Kind;
  /** Known values. */
  readonly values: readonly string[];
  readonly isBounded: boolean;
  /** Whether several values can be entered. */
  readonly isRepeatable: boolean;
}

/** A resource with the properties that the node needs. */
interface NodeResource {
  readonly name: string;
  readonly formerNames: readonly string[];
  /** The name of a record, for example `Opportunity line`. */
  readonly title: string;
  readonly fields: readonly (Input & { readonly isRequired: boolean })[];
  readonly patchFields: ReadonlySet<string>;
  readonly filters: readonly (Input & { readonly parameter: string })[];
  readonly options: readonly Parameter[];
  readonly matches: readonly (readonly string[])[];
  readonly hasTrash: boolean;
  readonly hasCustomFields: boolean;
}

/** Names derived from the name that people see, for example `Acme CRM`. */
export interface N8nNames {
  readonly title: string;
  /** For example `AcmeCrm`. */
  readonly className: string;
  /** For example `n8n-nodes-acme-crm`. */
  readonly packageName: string;
}

/** Derives the names of the package and its nodes. @throws UserError if the name is invalid */
export function n8nNames(title: string): N8nNames {
  if (!/^[A-Za-z][A-Za-z0-9]*( [A-Za-z0-9]+)*$/.test(title) || title.length > 40)
    throw new UserError(
      `--name must start with a letter and consist of up to 40 letters, digits and single spaces, not ${JSON.stringify(title)}`,
    );
  const words = title.toLowerCase().split(' ');
  return {
    title,
    className: words.map(capitalize).join(''),
    packageName: `n8n-nodes-${words.join('-')}`,
  };
}

const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/**
 * Generates an n8n community-node package for an instance.
 * @param document the instance's OpenAPI document
 * @returns the files' contents, keyed by path
 */
export function n8nPackage(document: OpenApiDocument, names: N8nNames): ReadonlyMap<string, string> {
  const resources = resourcesIn(document).map((resource) => nodeResource(resource, document));
  const { className } = names;
  const template = (path: string) => fill(readFileSync(join(templates, path), 'utf8'), names);
  const nodes = `dist/nodes/${className}`;
  return new Map([
    ...n8nUserFiles.map((file) => [file, template(file)] as const),
    ...readdirSync(join(templates, 'icons'))
      .toSorted()
      .map((file) => [`dist/icons/${file}`, template(`icons/${file}`)] as const),
    [`dist/credentials/${className}Api.credentials.js`, template('credentials/credentials.js')],
    [`${nodes}/${className}.node.js`, template('nodes/node.js')],
    [`${nodes}/${className}Trigger.node.js`, template('nodes/trigger-node.js')],
    [`${nodes}/api.js`, template('nodes/api.js')],
    [`${nodes}/properties.js`, propertiesSource(resources, names)],
    [
      `${nodes}/resources.json`,
      `${JSON.stringify(Object.fromEntries(resources.map(resourceEntry)), null, 2)}\n`,
    ],
  ]);
}

/** Replaces the placeholders for names in a template. */
const fill = (template: string, { title, className, packageName }: N8nNames): string => {
  const values: Readonly<Record<string, string>> = {
    $title: title,
    $Name: className,
    $name: className.charAt(0).toLowerCase() + className.slice(1),
    $package: packageName,
  };
  return template.replace(/\$(?:title|Name|name|package)/g, (placeholder) => values[placeholder] ?? '');
};

/** Returns the properties that the node needs at run time, as an entry of `resources.json`. */
const resourceEntry = ({ name, formerNames, fields, filters }: NodeResource) => [
  name,
  {
    formerNames,
    fields: Object.fromEntries(fields.map((field) => [field.name, field.kind])),
    required: fields.filter(({ isRequired }) => isRequired).map((field) => field.name),
    filters: Object.fromEntries(
      filters.map((filter) => [filter.name, { parameter: filter.parameter, kind: filter.kind }]),
    ),
  },
];

function nodeResource(
  { name, record, properties, list, hasTrash }: DocumentResource,
  { paths, components: { schemas, parameters } }: OpenApiDocument,
): NodeResource {
  const input = schemas[`${record}Input`] ?? {};
  const own = (list.parameters ?? [])
    .filter(({ $ref = '' }) => $ref.includes(`/${name}.`))
    .map((parameter) => resolve(parameter, parameters))
    .filter(({ deprecated }) => deprecated !== true);
  const optionNames = ['sort', 'dir', 'q', 'fields', 'expand', 'trashed'];
  const shared = (list.parameters ?? []).map((parameter) => resolve(parameter, parameters));
  const plain = new Set(
    own.filter(({ schema }) => schema.items !== undefined).map((parameter) => parameter.name),
  );
  const matches = schemas[`${record}Batch`]?.properties?.match?.enum ?? [];
  return {
    name,
    formerNames: Object.entries(paths)
      .flatMap(([path, { get }]) =>
        get?.deprecated === true && get.tags[0] === name && path.lastIndexOf('/') === apiPrefix.length
          ? [path.slice(apiPrefix.length + 1)]
          : [],
      )
      .filter((former) => former !== name),
    title: capitalize(record.replace(/(?<=[a-z0-9])[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)),
    fields: Object.entries(input.properties ?? {}).map(([field, schema]) => ({
      ...inputOf({
        name: field,
        // n8n discards parameters that a node no longer has, so former names remain as long as the API accepts them.
        title: schema.deprecated === true ? `${titleOf(field)} (Former Name)` : titleOf(field),
        schema,
        schemas,
      }),
      isRequired: input.required?.includes(field) ?? false,
    })),
    patchFields: new Set(Object.keys(schemas[`${record}Patch`]?.properties ?? {})),
    filters: own.flatMap((parameter) => {
      const [, field = '', operator] = /^(\w+)(?:\[(\w+)\])?$/.exec(parameter.name) ?? [];
      if (operator === undefined && optionNames.includes(field)) return [];
      // A repeated "is" filter already matches any of several values.
      if (plain.has(field) && (operator === 'eq' || operator === 'in')) return [];
      const { label } = operatorOf((operator ?? 'eq') as OperatorName);
      return [
        {
          ...inputOf({
            name: operator === undefined ? field : `${field}__${operator}`,
            title: `${titleOf(field)} ${titleOf(label.replace(' (true or false)', ''))}`,
            schema: {
              ...parameter.schema,
              ...(parameter.description !== undefined && { description: parameter.description }),
            },
            schemas,
          }),
          parameter: parameter.name,
        },
      ];
    }),
    options: optionNames.flatMap((option) => shared.find((parameter) => parameter.name === option) ?? []),
    matches: matches.map((match) => [match].flat().map(String)),
    hasTrash,
    hasCustomFields: 'custom' in properties,
  };
}

/** Returns an input for a field's or parameter's schema. */
function inputOf({
  name,
  title,
  schema,
  schemas,
}: {
  readonly name: string;
  readonly title: string;
  readonly schema: Schema;
  readonly schemas: OpenApiDocument['components']['schemas'];
}): Input {
  const value = schema.items ?? schema;
  const kind = kindOf(schema, schemas);
  const known = value.enum ?? value['x-extensible-enum'] ?? [];
  const values = known.filter((each): each is string => typeof each === 'string' && each !== '');
  return {
    name,
    title,
    description: schema.description ?? '',
    kind,
    values: kind === 'text' ? values : [],
    isBounded:
      Number.isSafeInteger(value.minimum) && Number.isSafeInteger(value.maximum) && kind === 'integer',
    isRepeatable: schema.items !== undefined,
  };
}

/** Returns how a value is converted. Arrays are filters that accept several values, or lists of IDs. */
function kindOf(schema: Schema, schemas: OpenApiDocument['components']['schemas']): Kind {
  if (schema.$ref !== undefined || schema.anyOf !== undefined || schema.allOf !== undefined) return 'json';
  const types = new Set([schema.type ?? []].flat());
  if (types.has('object') || types.size === 0) return 'json';
  if (types.has('array')) {
    const kind = kindOf(resolve(schema.items ?? {}, schemas), schemas);
    return kind === 'integer' ? 'ids' : kind;
  }
  if (types.has('string')) {
    if (schema.format === 'date-time') return 'dateTime';
    return schema.format === 'date' ? 'date' : 'text';
  }
  if (types.has('boolean')) return 'boolean';
  return types.has('integer') ? 'integer' : 'decimal';
}

/** Words that are not capitalized inside titles, as in n8n's own rules. */
const smallWords = new Set(
  'a an and as at because but by en for if in neither nor of on only or over per so some than that the to up upon via vs when with without yet'.split(
    ' ',
  ),
);
const abbreviations: Readonly<Record<string, string>> = {
  id: 'ID',
  ids: 'IDs',
  url: 'URL',
  json: 'JSON',
  api: 'API',
};

/** Returns a name in title case, for example `Last Modified by ID`. */
function titleOf(name: string): string {
  const words = name.split(/[_ .]+/).filter((word) => word !== '');
  return words
    .map((word, index) => {
      const isInside = index > 0 && index < words.length - 1;
      return (
        abbreviations[word.toLowerCase()] ?? (isInside && smallWords.has(word) ? word : capitalize(word))
      );
    })
    .join(' ');
}

/** Returns a description in the form that n8n's rules require, or an empty object if it adds nothing to the title. */
function describe(text: string, title: string): Property {
  const sentences = text
    .replaceAll('`', "'")
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replace(/\b(id|ids|url|json)\b/gi, (word) => abbreviations[word.toLowerCase()] ?? word)
    .replace(/\s+/g, ' ')
    .trim();
  const isSentence = !/[.!?] /.test(sentences);
  const description = capitalize(
    isSentence ? sentences.replace(/\.$/, '') : sentences.replace(/[^.!?]$/, '$&.'),
  );
  return description === '' || description.toLowerCase() === title.toLowerCase() ? {} : { description };
}

/** Returns options in the order that n8n's rules require. */
const optionsOf = (values: readonly string[]): readonly Property[] =>
  [...new Set(values)].toSorted(byText).map((value) => ({ name: titleOf(value), value }));

const byText = (a: string, b: string): number => a.localeCompare(b, 'en');

const byTitle = (a: Property, b: Property): number => byText(String(a.displayName), String(b.displayName));

/** Returns the property with which a value is entered. */
function inputProperty(input: Input, name = input.name): Property {
  const { title: displayName, kind, values, isRepeatable } = input;
  const described = describe(input.description, displayName);
  const base = { displayName, name };
  const sentences = Object.values(described).map((text) => String(text).replace(/[^.]$/, '$&.'));
  // Lists of IDs are separated by commas.
  const hasList = isRepeatable && kind !== 'ids';
  if (values.length > 0) {
    const options = optionsOf(values);
    return isRepeatable
      ? { ...base, type: 'multiOptions', options, default: [], ...described }
      : { ...base, type: 'options', options, default: options[0]?.value ?? '', ...described };
  }
  if (kind === 'boolean')
    return {
      ...base,
      type: 'boolean',
      default: false,
      description: [`Whether '${input.name}' is true`, ...sentences].join('. '),
    };
  if (kind === 'json') return { ...base, type: 'json', default: '', ...described };
  if (input.isBounded) return { ...base, type: 'number', default: 0, ...described };
  const typeOptions = {
    ...(/password|secret|token/i.test(name) && { password: true }),
    ...(hasList && { multipleValues: true }),
  };
  return {
    ...base,
    type: kind === 'dateTime' || kind === 'date' ? 'dateTime' : 'string',
    ...(Object.keys(typeOptions).length > 0 && { typeOptions }),
    ...(/email/i.test(name) && { placeholder: 'name@email.com' }),
    default: hasList ? [] : '',
    ...described,
  };
}

/** Returns the source of `properties.js`: the parameters of both nodes. */
function propertiesSource(resources: readonly NodeResource[], { title }: N8nNames): string {
  const options = resources
    .map((resource) => ({ name: resource.title, value: resource.name }))
    .toSorted((a, b) => byText(a.name, b.name));
  const properties = [
    {
      displayName: 'Resource',
      name: 'resource',
      type: 'options',
      noDataExpression: true,
      options,
      default: options[0]?.value ?? '',
    },
    ...resources.flatMap(resourceProperties),
  ];
  const triggerProperties = [
    {
      displayName: 'Resources',
      name: 'resources',
      type: 'multiOptions',
      options,
      default: [],
      required: true,
      description: 'Resources whose changes start the workflow',
    },
    {
      displayName: 'Actions',
      name: 'actions',
      type: 'multiOptions',
      options: ['create', 'delete', 'update'].map((value) => ({ name: capitalize(value), value })),
      default: ['create', 'delete', 'update'],
      required: true,
      description: 'Changes that start the workflow',
    },
    {
      displayName: 'Filter',
      name: 'filter',
      type: 'string',
      default: '',
      placeholder: 'status=New',
      description: 'List parameters that records must match. Deletions always start the workflow.',
    },
    {
      displayName: 'Filter When',
      name: 'filterWhen',
      type: 'options',
      options: [
        {
          name: 'Record Enters',
          value: 'enters',
          description: 'The change makes the record match the filter',
        },
        {
          name: 'Record Leaves',
          value: 'leaves',
          description: 'The record no longer matches the filter after the change',
        },
        {
          name: 'Record Matches',
          value: 'matches',
          description: 'The record matches the filter when the event is sent',
        },
      ],
      default: 'matches',
      displayOptions: { hide: { filter: [''] } },
    },
  ];
  return `// The parameters of the nodes for ${title}.
/** @typedef {import('n8n-workflow').INodeProperties} INodeProperties */

/** @type {INodeProperties[]} */
const properties = ${literal(properties)};

/** @type {INodeProperties[]} */
const triggerProperties = ${literal(triggerProperties)};

module.exports = { properties, triggerProperties };
`;
}

/** Returns the parameters of a resource's operations. */
function resourceProperties(resource: NodeResource): readonly Property[] {
  const { name, formerNames, title, fields, patchFields, filters, options, matches, hasTrash } = resource;
  const shown = (...operations: readonly string[]) => ({
    displayOptions: { show: { resource: [name, ...formerNames], operation: operations } },
  });
  const record = title.charAt(0).toLowerCase() + title.slice(1);
  const operation = (value: string, label: string, action: string, description: string) => ({
    name: label,
    value,
    action,
    description,
  });
  const aRecord = /^[aeiou]/i.test(record) ? `an ${record}` : `a ${record}`;
  const optionProperties = (only: readonly string[]) =>
    options
      .filter((option) => only.includes(option.name))
      .map(optionProperty)
      .toSorted(byTitle);
  const collection = (
    displayName: string,
    key: string,
    added: string,
    entries: readonly Property[],
    when: Property,
  ) =>
    entries.length === 0
      ? []
      : [
          {
            displayName,
            name: key,
            type: 'collection',
            placeholder: added,
            default: {},
            options: entries,
            ...when,
          },
        ];
  return [
    {
      displayName: 'Operation',
      name: 'operation',
      type: 'options',
      noDataExpression: true,
      displayOptions: { show: { resource: [name, ...formerNames] } },
      options: [
        operation('create', 'Create', `Create ${aRecord}`, `Create ${aRecord}`),
        ...(matches.length === 0
          ? []
          : [
              operation(
                'upsert',
                'Create or Update',
                `Create or update ${aRecord}`,
                'Create a new record, or update the current one if it already exists (upsert)',
              ),
            ]),
        operation('delete', 'Delete', `Delete ${aRecord}`, `Delete ${aRecord}`),
        operation('get', 'Get', `Get ${aRecord}`, `Get ${aRecord}`),
        operation('getAll', 'Get Many', `Get many ${record} records`, `Get many ${record} records`),
        ...(hasTrash
          ? [operation('restore', 'Restore', `Restore ${aRecord}`, `Restore ${aRecord} from the trash`)]
          : []),
        operation('update', 'Update', `Update ${aRecord}`, `Update ${aRecord}`),
      ],
      default: 'getAll',
    },
    {
      displayName: `${titleOf(title)} ID`,
      name: 'recordId',
      type: 'string',
      default: '',
      required: true,
      ...shown('get', 'update', 'delete', 'restore'),
    },
    ...(matches.length === 0
      ? []
      : [
          {
            displayName: 'Match By',
            name: 'match',
            type: 'options',
            options: matches
              .map((match) => ({ name: match.map(titleOf).join(', '), value: match.join(',') }))
              .toSorted((a, b) => byText(a.name, b.name)),
            default: matches[0]?.join(',') ?? '',
            description: 'Fields that identify an existing record',
            ...shown('upsert'),
          },
        ]),
    ...fields
      .filter(({ isRequired }) => isRequired)
      .map((field) => ({
        ...inputProperty(field, `field_${field.name}`),
        required: true,
        ...shown('create', 'upsert'),
      })),
    ...collection(
      'Additional Fields',
      'additionalFields',
      'Add Field',
      fields
        .filter(({ isRequired }) => !isRequired)
        .map((field) => inputProperty(field))
        .toSorted(byTitle),
      shown('create', 'upsert'),
    ),
    ...collection(
      'Update Fields',
      'updateFields',
      'Add Field',
      fields
        .filter((field) => patchFields.has(field.name))
        .map((field) => inputProperty(field))
        .toSorted(byTitle),
      shown('update'),
    ),
    {
      displayName: 'Return All',
      name: 'returnAll',
      type: 'boolean',
      default: false,
      description: 'Whether to return all results or only up to a given limit',
      ...shown('getAll'),
    },
    {
      displayName: 'Limit',
      name: 'limit',
      type: 'number',
      typeOptions: { minValue: 1 },
      default: 50,
      description: 'Max number of results to return',
      displayOptions: {
        show: { resource: [name, ...formerNames], operation: ['getAll'], returnAll: [false] },
      },
    },
    ...collection(
      'Filters',
      'filters',
      'Add Filter',
      filters.map((filter) => inputProperty(filter)).toSorted(byTitle),
      shown('getAll'),
    ),
    ...(resource.hasCustomFields ? [{ ...customFilters, ...shown('getAll') }] : []),
    ...collection('Options', 'options', 'Add Option', [idempotencyKey], shown('create')),
    ...collection('Options', 'options', 'Add Option', optionProperties(['fields', 'expand']), shown('get')),
    ...collection(
      'Options',
      'options',
      'Add Option',
      optionProperties(options.map((option) => option.name)),
      shown('getAll'),
    ),
  ];
}

const idempotencyKey: Property = {
  displayName: 'Idempotency Key',
  name: 'idempotencyKey',
  type: 'string',
  typeOptions: { password: false },
  default: '',
  description: 'A repeated request with the same key does not create another record',
};

const customFilters: Property = {
  displayName: 'Custom Field Filters',
  name: 'customFilters',
  type: 'fixedCollection',
  typeOptions: { multipleValues: true },
  placeholder: 'Add Filter',
  default: {},
  options: [
    {
      displayName: 'Filter',
      name: 'filter',
      values: [
        {
          displayName: 'Name',
          name: 'name',
          type: 'string',
          default: '',
          placeholder: 'shoe_size[gte]',
          description:
            'Name of the custom field, followed by an operator in brackets if the values need not be equal',
        },
        { displayName: 'Value', name: 'value', type: 'string', default: '' },
      ],
    },
  ],
};

/** Returns the property for an option of reads. */
function optionProperty({ name, description = '', schema }: Parameter): Property {
  const titles: Readonly<Record<string, string>> = { q: 'Search', dir: 'Direction', trashed: 'Trashed Only' };
  const displayName = titles[name] ?? titleOf(name);
  const known =
    schema.enum ??
    schema.items?.enum ??
    schema.anyOf?.find((member) => member.enum !== undefined)?.enum ??
    [];
  const options = optionsOf(known.flat().map(String));
  const base = { displayName, name };
  const described = describe(description, displayName);
  if (schema.items !== undefined)
    return { ...base, type: 'multiOptions', options, default: [], ...described };
  // Sorting by several fields is an expression, for example "stage,-amount".
  return options.length > 0
    ? { ...base, type: 'options', options, default: options[0]?.value ?? '', ...described }
    : { ...base, type: 'string', default: '', ...described };
}

/** Writes a value as a JavaScript literal. @param indent indentation of the line that contains it */
function literal(value: Literal, indent = ''): string {
  if (typeof value === 'string') return stringLiteral(value);
  if (typeof value !== 'object') return String(value);
  const inner = `${indent}  `;
  const isList = Array.isArray(value);
  const lines = isList
    ? value.map((item: Literal) => `${inner}${literal(item, inner)},\n`)
    : Object.entries(value).map(
        ([key, item]: readonly [string, Literal]) => `${inner}${key}: ${literal(item, inner)},\n`,
      );
  const [open, close] = isList ? ['[', ']'] : ['{', '}'];
  return lines.length === 0 ? `${open}${close}` : `${open}\n${lines.join('')}${indent}${close}`;
}
