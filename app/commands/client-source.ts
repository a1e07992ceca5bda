import { UserError } from '../../engine/errors.ts';

/** The parts of an OpenAPI document that a client is made from. */
export interface Document {
  readonly paths: Readonly<Record<string, PathItem>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly parameters: Readonly<Record<string, Parameter>>;
  };
}
interface PathItem {
  readonly get?: Operation;
  readonly post?: Operation;
}
interface Operation {
  /** It is of the former name of a resource. */
  readonly deprecated?: boolean;
  readonly parameters?: readonly Reference[];
  readonly responses: Readonly<Record<string, { readonly content?: Content }>>;
}
type Content = Readonly<Record<string, { readonly schema: Reference }>>;
interface Reference {
  readonly $ref: string;
}
interface Schema {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly deprecated?: boolean;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly anyOf?: readonly Partial<Reference>[];
  readonly enum?: readonly (string | readonly string[])[];
  readonly 'x-extensible-enum'?: readonly string[];
}
interface Parameter {
  readonly name: string;
  readonly description?: string;
  readonly schema: Schema;
}

/** What a client needs to know of a resource. */
interface Described {
  readonly name: string;
  readonly record: string;
  readonly schemas: Document['components']['schemas'];
  readonly parameters: readonly Parameter[];
}

/** A name of the document, as code. @throws UserError where it is none: the code of a stranger would run in the client */
function identifier(name: string): string {
  if (/^[A-Za-z_]\w*$/.test(name)) return name;
  throw new UserError(
    `the description has the name ${JSON.stringify(name)}, which is not a valid resource or field name`,
  );
}
const lastOf = ({ $ref }: Reference): string => $ref.slice($ref.lastIndexOf('/') + 1);
const nameOf = (reference: Reference): string => identifier(lastOf(reference));
const quoted = (text: string) =>
  `'${JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;
const union = (parts: readonly string[]) => (parts.length === 0 ? 'never' : parts.join(' | '));
const jsonTypes = ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'];
function typesOf({ type = [] }: Schema): readonly string[] {
  const unknown = [type].flat().find((each) => !jsonTypes.includes(each));
  if (unknown === undefined) return [type].flat();
  throw new UserError(`the description has the type ${JSON.stringify(unknown)}, which JSON does not have`);
}

/**
 * The TypeScript of the resources that a document describes: `src/resources.ts` of a client.
 * @throws UserError where the document is not of an instance
 */
export function clientSource(document: Document): string {
  const resources = resourcesOf(document);
  const codes = document.components.schemas.ErrorCode?.['x-extensible-enum'] ?? [];
  if (resources.length === 0 || codes.length === 0)
    throw new UserError('the description does not contain resources. Pass the URL of a CRM instance.');
  return `${[
    '// Written by `crm client`: the resources of an instance. Run it again when they change.\n' +
      "import * as crm from './client.ts';\nimport * as events from './events.ts';\nimport type * as http from './http.ts';",
    ...resources.map(typesOfResource),
    `/** The types of each resource. */\nexport interface ${typesName} {\n${resources.map(({ name, record }) => `  readonly ${name}: ${record}Types;`).join('\n')}\n}`,
    `const resources = {\n${resources.map((each) => infoOf(each, resources)).join('\n')}\n} as const;`,
    `/** The client of an instance, with each of its resources. */\nexport type CrmClient = crm.ClientOf<${typesName}>;`,
    `/** Makes a client; nothing is sent before it is used. */\nexport const createClient = (options: http.ClientOptions): CrmClient =>\n  crm.clientOf<${typesName}>(resources, options);`,
    `/** An event that a subscription sends. */\nexport type CrmEvent = events.EventOf<${typesName}>;`,
    `/** Verifies an event of a subscription and reads it; rejects with InvalidEventError. The body must be as it came. */\nexport const readEvent: events.EventReader<${typesName}> = (body, headers, secrets) =>\n  events.readEventOf<${typesName}>(resources, body, headers, secrets);`,
    `/** The codes of errors that this version of the API knows; others may come. */\nexport type ErrorCode =\n${codes.map((code) => `  | ${quoted(code)}`).join('\n')};`,
  ].join('\n\n')}\n`;
}

const typesName = 'CrmResources';

/** Resources are what has a list and records below it. */
function resourcesOf({ paths, components: { schemas, parameters } }: Document): readonly Described[] {
  return Object.entries(paths).flatMap(([path, { get, post }]) => {
    const name = /^\/api\/v1\/(\w+)$/.exec(path)?.[1];
    const created = post?.responses[201]?.content?.['application/json'];
    const hasRecords = paths[`${path}/{id}`]?.get !== undefined;
    if (name === undefined || get === undefined || created === undefined || !hasRecords) return [];
    if (get.deprecated) return [];
    const own = (get.parameters ?? []).flatMap((reference) => {
      const parameter = parameters[lastOf(reference)];
      return parameter !== undefined && reference.$ref.includes(`/${name}.`) ? [parameter] : [];
    });
    return [{ name: identifier(name), record: nameOf(created.schema), schemas, parameters: own }];
  });
}

/** The interfaces of a resource. */
function typesOfResource({ name, record, schemas, parameters }: Described): string {
  const fields = schemas[record]?.properties ?? {};
  const names = (parameter: string) => {
    const schema = parameters.find((each) => each.name === parameter)?.schema;
    return union((schema?.enum ?? []).flat().map(quoted));
  };
  const references = Object.entries(expandedOf(record, schemas));
  const matches = schemas[`${record}Batch`]?.properties?.match?.enum ?? [];
  return [
    interfaceOf(
      record,
      schemas[record]?.description,
      Object.entries(fields).map(([field, schema]) => memberOf(field, schema, valueType(schema))),
    ),
    inputInterface(`${record}Input`, schemas),
    inputInterface(`${record}Patch`, schemas),
    interfaceOf(
      `${record}Filters`,
      `What ${name} can be filtered by. All conditions must hold.`,
      filtersOf(record, parameters),
    ),
    interfaceOf(`${record}Types`, `The types of ${name}.`, [
      `  readonly record: ${record};`,
      `  readonly input: ${record}Input;`,
      `  readonly patch: ${record}Patch;`,
      `  readonly filters: ${record}Filters;`,
      `  readonly search: ${parameters.some((each) => each.name === 'q') ? 'string' : 'never'};`,
      `  readonly sort: ${names('sort')};`,
      references.length === 0
        ? '  readonly expanded: { readonly [reference in never]: never };'
        : `  readonly expanded: {\n${references.map(([reference, { anyOf }]) => `    readonly ${identifier(reference)}: ${targetOf(anyOf)} | null;`).join('\n')}\n  };`,
      `  readonly match: ${union(matches.map((each) => `readonly [${[each].flat().map(quoted).join(', ')}]`))};`,
    ]),
  ].join('\n\n');
}

/** Returns the references of a record that can be expanded: only reads have them. */
const expandedOf = (record: string, schemas: Described['schemas']): Readonly<Record<string, Schema>> =>
  schemas[`${record}Projection`]?.properties?.expanded?.properties ?? {};

const targetOf = (anyOf: Schema['anyOf'] = []): string =>
  union(anyOf.flatMap(({ $ref }) => ($ref === undefined ? [] : [nameOf({ $ref })])));

const comment = (text: string | undefined, indent = ''): string =>
  text === undefined || text === ''
    ? ''
    : `${indent}/** ${text.replaceAll('*/', '*\\/').replaceAll('\n', ' ')} */\n`;

const interfaceOf = (name: string, description: string | undefined, members: readonly string[]): string =>
  `${comment(description)}export interface ${name} {\n${members.join('\n')}\n}`;

const memberOf = (name: string, { description = '', deprecated }: Schema, type: string, mark = ''): string =>
  `${comment(deprecated ? `@deprecated ${description}` : description, '  ')}  readonly ${identifier(name)}${mark}: ${type};`;

function inputInterface(name: string, schemas: Described['schemas']): string {
  const { description, properties = {}, required = [] } = schemas[name] ?? {};
  const members = Object.entries(properties).map(([field, schema]) =>
    memberOf(field, schema, inputType(schema), required.includes(field) ? '' : '?'),
  );
  return interfaceOf(name, description, members);
}

/** The type of a value in a response: whatever is exact. */
function valueType(schema: Schema): string {
  const values = schema['x-extensible-enum'];
  return union(
    typesOf(schema).map((type) => {
      if (type === 'string' && values !== undefined)
        return `${values.map(quoted).join(' | ')} | (string & {})`;
      return type === 'integer' ? 'bigint' : type === 'number' ? 'string' : type;
    }),
  );
}

/** The type of a value that is sent: also a number, if that is exact. */
const inputType = (schema: Schema): string =>
  typesOf(schema).some((type) => type === 'integer' || type === 'number')
    ? `number | ${valueType(schema)}`
    : valueType(schema);

/** A member for each field: its value, or conditions by their operators. */
function filtersOf(record: string, parameters: readonly Parameter[]): readonly string[] {
  const fields = new Map<string, { value?: Parameter; operators: [string, Parameter][] }>();
  for (const parameter of parameters) {
    const [, field = '', operator] = /^(\w+)(?:\[(\w+)\])?$/.exec(parameter.name) ?? [];
    if (operator === undefined && notFilters.has(field)) continue;
    const filter = fields.get(field) ?? { operators: [] };
    if (operator === undefined) filter.value = parameter;
    else filter.operators.push([operator, parameter]);
    fields.set(field, filter);
  }
  return [...fields].map(([field, { value, operators }]) => {
    const own = `${record}['${field}']`;
    const conditions = operators.map(
      ([operator, parameter]) => `    readonly ${operator}?: ${operandType(parameter, own)};`,
    );
    const types = [
      ...(value === undefined ? [] : [operandType(value, own)]),
      ...(conditions.length === 0 ? [] : [`{\n${conditions.join('\n')}\n  }`]),
    ];
    return `  readonly ${field}?: ${union(types)};`;
  });
}

/** List parameters other than filters; fields must not have these names. */
const notFilters: ReadonlySet<string> = new Set([
  'sort',
  'dir',
  'q',
  'fields',
  'expand',
  'page',
  'cursor',
  'org',
]);

/** @param own the type of the field in records, which has the values that are known */
function operandType({ schema }: Parameter, own: string): string {
  const typeOf = (value: Schema) => (value['x-extensible-enum'] === undefined ? inputType(value) : own);
  if (schema.items !== undefined) return `crm.Values<${typeOf(schema.items)}>`;
  const isWord = schema.enum?.join() === 'true,false';
  return isWord ? 'boolean' : typeOf(schema);
}

/** What the client has to know of a resource when it runs. */
function infoOf({ name, record, schemas }: Described, resources: readonly Described[]): string {
  const fields = schemas[record]?.properties ?? {};
  const numbers = Object.entries(fields).flatMap(([field, schema]) => {
    const types = typesOf(schema);
    return types.includes('integer')
      ? [[field, 'int64']]
      : types.includes('number')
        ? [[field, 'decimal']]
        : [];
  });
  const references = Object.entries(expandedOf(record, schemas)).flatMap(([reference, { anyOf }]) => {
    const target = resources.find((each) => each.record === targetOf(anyOf));
    return target === undefined ? [] : [[reference, target.name]];
  });
  const object = (entries: readonly (readonly string[])[]) =>
    entries.length === 0
      ? '{}'
      : `{ ${entries.map(([key = '', value = '']) => `${identifier(key)}: ${quoted(value)}`).join(', ')} }`;
  return `  ${name}: {\n    numbers: ${object(numbers)},\n    references: ${object(references)},\n  },`;
}
