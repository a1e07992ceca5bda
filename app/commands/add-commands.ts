import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { parse, stringify } from 'yaml';
import { checkSources, readSources } from '../../engine/definition/index.ts';
import { UserError } from '../../engine/errors.ts';
import { type FieldType, fieldTypes } from '../../engine/fields/index.ts';
import { type CommandLine, type CommandResult, jsonResult } from '../../engine/modules/index.ts';
import { type Source, suggestion, withEntry, withItem, YamlError } from '../../engine/yaml/index.ts';
import { type Config, loadConfig } from '../config.ts';
import { readDefinitions } from '../serve/build.ts';
import type { Instance } from '../services.ts';
import { refreshSchemas, schemaLine } from './editors.ts';

interface FieldOptions {
  readonly description?: string | undefined;
  readonly default?: string | undefined;
  readonly to?: string | undefined;
  readonly onDelete?: string | undefined;
  readonly currency?: string | undefined;
  readonly through?: string | undefined;
  readonly show?: string | undefined;
  readonly nullable?: true | undefined;
  readonly required?: true | undefined;
  readonly unique?: true | undefined;
  readonly filter?: true | undefined;
}

interface ResourceOptions {
  readonly singular?: string | undefined;
  readonly description?: string | undefined;
}

/** Adds the `add field` and `add resource` commands. */
export function addCommands({ program, run }: CommandLine<Instance>): void {
  const add = program
    .command('add')
    .description('add a resource or field to the definitions without applying the change');
  add
    .command('field')
    .description('add a field to a resource')
    .argument('<resource>')
    .argument('<name>')
    .argument('<type>', Object.keys(fieldTypes).join(', '))
    .option('--description <text>', 'description in the OpenAPI document')
    .option('--default <value>', 'default value')
    .option('--to <resources>', 'target resource of a reference, or several, separated by commas')
    .option('--on-delete <rule>', 'effect of deleting the referenced record: clear, restrict or cascade')
    .option('--currency <code>', 'currency of a money field, or "any"')
    .option('--through <field>', 'reference that a joined field follows')
    .option('--show <fields>', 'fields that a joined field shows, separated by commas')
    .option('--nullable', 'allow null; an absent value becomes null')
    .option('--required', 'reject bodies without this field')
    .option('--unique', 'reject a second record with the same value in an organization')
    .option('--filter', 'allow filtering by this field')
    .addOption(jsonResult())
    .action((resource, name, type, { json, ...options }) =>
      run(json, addField(resource, name, type, options)),
    );
  add
    .command('resource')
    .description('add a resource with one field')
    .argument('<name>', 'plural name, for example invoices')
    .option('--singular <name>', 'name of a single record, for example invoice')
    .option('--description <text>', 'description in the OpenAPI document')
    .addOption(jsonResult())
    .action((name, { json, ...options }) => run(json, addResource(name, options)));
}

async function addField(
  resource: string,
  name: string,
  type: string,
  { filter, ...options }: FieldOptions,
): Promise<CommandResult> {
  const config = await loadConfig();
  const { resources } = config;
  const sources = await readDefinitions(config);
  const definitions = checkSources(sources);
  const definition = definitions.find((candidate) => candidate.name === resource);
  if (definition === undefined) {
    const names = definitions.map((candidate) => candidate.name);
    throw new UserError(`unknown resource "${resource}"${suggestion(resource, names)}`);
  }
  if (!Object.hasOwn(fieldTypes, type)) {
    throw new UserError(`unknown type "${type}"${suggestion(type, Object.keys(fieldTypes))}`);
  }
  if ([...definition.fields, ...definition.retired].some((field) => field.name === name)) {
    throw new UserError(`${resource} already has a field "${name}"`);
  }
  const instanceSources = await readSources(resources);
  const existing = instanceSources.find(({ file }) => file === definition.file);
  const field = fieldYaml(type, options);
  const source = existing ?? {
    file: fileOf(resources, resource),
    text: `${schemaLine(resource)}extends: ${resource}\n`,
  };
  const withField = withEntry(source.text, 'fields', name, field);
  const text = filter ? withItem(withField, 'filters', name) : withField;
  await write(config, sources, { file: source.file, text });
  return {
    json: { file: source.file, field: { [name]: parse(field) as object } },
    text: `Added to ${source.file}:\n  ${name}: ${field}\n${nextSteps(name)}`,
  };
}

async function addResource(name: string, { singular, description }: ResourceOptions): Promise<CommandResult> {
  const config = await loadConfig();
  const file = fileOf(config.resources, name);
  if (existsSync(file)) throw new UserError(`${file} already exists`);
  const text = `${schemaLine(name)}${stringify({
    singular: singular ?? name.replace(/ies$/, 'y').replace(/s$/, ''),
    ...(description !== undefined && { description }),
    common: 'all',
  })}fields:
  name: { type: string, description: Name. }
sort: { by: created_at, direction: desc }
`;
  await write(config, await readDefinitions(config), { file, text });
  return { json: { file }, text: `Wrote ${file}.\n${nextSteps(name)}` };
}

/** Formats a field as one line of YAML. */
function fieldYaml(type: string, { default: value, ...options }: Omit<FieldOptions, 'filter'>): string {
  const { text, refers, element }: FieldType = fieldTypes[type as keyof typeof fieldTypes];
  const { to, onDelete, currency, through, show } = options;
  // By default, deleting the referenced record sets the reference to null.
  const isOptional = refers && element === undefined && !options.required;
  const field = {
    type,
    ...(to !== undefined && { to: to.includes(',') ? itemsOf(to) : to }),
    ...(onDelete !== undefined && { on_delete: onDelete }),
    ...(currency !== undefined && { currency }),
    ...(through !== undefined && { through }),
    ...(show !== undefined && { show: itemsOf(show) }),
    ...((options.nullable || isOptional) && { nullable: true }),
    ...(options.required && { required: true }),
    ...(options.unique && { unique: true }),
    ...(value !== undefined && { default: text === undefined ? (parse(value) as unknown) : value }),
    ...(options.description !== undefined && { description: options.description }),
  };
  return stringify(field, { collectionStyle: 'flow', lineWidth: 0 }).trim();
}

const itemsOf = (list: string): string[] => list.split(',').map((item) => item.trim());

/** Writes a definition file. @throws UserError listing all issues if the resulting definitions are invalid */
async function write(config: Config, sources: readonly Source[], source: Source): Promise<void> {
  try {
    checkSources([...sources.filter(({ file }) => file !== source.file), source]);
  } catch (cause) {
    if (!(cause instanceof YamlError)) throw cause;
    throw new UserError(`${cause.message}\nNothing was written.`, { cause });
  }
  await writeFile(source.file, source.text);
  await refreshSchemas(config);
}

/** Returns the path of a definition file, relative to the working directory. */
const fileOf = (folder: string, name: string): string =>
  relative(process.cwd(), join(folder, `${name}.yaml`));

const nextSteps = (name: string): string =>
  `"npm run crm -- plan" shows what it will do, and "npm run crm -- migrate --create ${name}" creates its migration.`;
