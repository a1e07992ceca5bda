import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import type { AuditConfig } from '../../../engine/effects/index.ts';
import { type FieldIssue, HttpError, UserError } from '../../../engine/errors.ts';
import { hasCustomFields } from '../../../engine/fields/index.ts';
import {
  type CommandLine,
  formatTable,
  inOrganization,
  jsonResult,
  organizationOption,
} from '../../../engine/modules/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import { suggestion } from '../../../engine/yaml/index.ts';
import {
  type CustomField,
  changeCustomField,
  createCustomField,
  findCustomField,
  listCustomFields,
  setDeleted,
} from './custom-fields.ts';
import { readChange, readNewField } from './input.ts';
import { fieldRetentionDays } from './retention.ts';

/** Adds the `fields` commands. */
export function customFieldCommands(
  line: CommandLine<{
    readonly config: AuditConfig;
    readonly database: Database;
    readonly resources: readonly Resource[];
  }>,
): void {
  const fields = line.program
    .command('fields')
    .description("manage an organization's custom fields of resources with custom_fields");
  fields
    .command('list')
    .description("list an organization's custom fields, including deleted ones")
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((options) =>
      inOrganization(line, options, async ({ tables, organization }) => {
        const rows = await listCustomFields(tables, organization);
        return {
          json: { fields: rows.map(toJson) },
          text: formatTable(
            ['resource', 'name', 'type', 'deleted'],
            rows.map(({ resource, name, options: { type }, deletedAt }) => [
              ...[resource, name, type],
              deletedAt?.toISOString() ?? '',
            ]),
          ),
        };
      }),
    );
  fields
    .command('create <resource> <name> <type>')
    .description('create a custom field')
    .addOption(organizationOption())
    .option('--properties <json>', 'other properties as in the API, for example {"max": 100}')
    .addOption(jsonResult())
    .action((resource, name, type, options) =>
      inOrganization(line, options, async ({ tables, actor, organization, instance: { resources } }) => {
        const { definition } = findResource(resources, resource);
        const body = { ...propertiesIn(options.properties), name, type };
        const input = checked((issues) => readNewField(definition, body, issues));
        const key = { organization, resource, name };
        await withUserErrors(() => createCustomField(tables, actor, key, input.options));
        return { json: { resource, name }, text: `Created the custom field "${name}" of ${resource}.` };
      }),
    );
  fields
    .command('change <resource> <name>')
    .description('change the properties of a custom field, except its name and type')
    .addOption(organizationOption())
    .requiredOption('--properties <json>', 'properties to change as in the API; null removes one')
    .addOption(jsonResult())
    .action((resource, name, options) =>
      inOrganization(line, options, async ({ tables, actor, organization, instance: { resources } }) => {
        const { definition } = findResource(resources, resource);
        const field = await existing(tables, organization, resource, name, false);
        const body = propertiesIn(options.properties);
        const { options: changed } = checked((issues) => readChange(definition, field, body, issues));
        await withUserErrors(() => changeCustomField(tables, actor, organization, field.id, changed));
        return { json: { resource, name }, text: `Changed the custom field "${name}" of ${resource}.` };
      }),
    );
  fields
    .command('delete <resource> <name>')
    .description(`delete a custom field and, after ${fieldRetentionDays} days, its values`)
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((resource, name, options) =>
      inOrganization(line, options, async ({ tables, actor, organization }) => {
        const { id } = await existing(tables, organization, resource, name, false);
        await setDeleted(tables, actor, organization, id, true);
        return {
          json: { resource, name },
          text: `Deleted the custom field "${name}" of ${resource}. Its values are kept for ${fieldRetentionDays} days.`,
        };
      }),
    );
  fields
    .command('restore <resource> <name>')
    .description('restore a deleted custom field and its values')
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((resource, name, options) =>
      inOrganization(line, options, async ({ tables, actor, organization }) => {
        const { id } = await existing(tables, organization, resource, name, true);
        await setDeleted(tables, actor, organization, id, false);
        return { json: { resource, name }, text: `Restored the custom field "${name}" of ${resource}.` };
      }),
    );
}

const toJson = ({ resource, name, options, deletedAt }: CustomField) => ({
  resource,
  name,
  ...options,
  deleted_at: deletedAt?.toISOString() ?? null,
});

/** Returns a resource with custom fields. @throws UserError if it does not have custom fields */
function findResource(resources: readonly Resource[], name: string): Resource {
  const extended = resources.filter(({ definition }) => hasCustomFields(definition));
  const resource = extended.find((candidate) => candidate.name === name);
  if (resource !== undefined) return resource;
  const names = extended.map((candidate) => candidate.name);
  const available =
    names.length === 0 ? 'No resource has "custom_fields: true".' : `Available: ${names.join(', ')}.`;
  throw new UserError(`${name} does not have custom fields${suggestion(name, names) || '.'} ${available}`);
}

/** Finds a custom field. @throws UserError if it does not exist, or its state differs */
async function existing(
  tables: Tables,
  organization: string,
  resource: string,
  name: string,
  isDeleted: boolean,
): Promise<CustomField> {
  const field = await findCustomField(tables, { organization, resource, name });
  if (field === undefined || (field.deletedAt !== null) !== isDeleted)
    throw new UserError(`${resource} does not have a ${isDeleted ? 'deleted ' : ''}custom field "${name}".`);
  return field;
}

/** Parses the option with properties. @throws UserError if it is not a JSON object */
function propertiesIn(text = '{}'): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return value as Readonly<Record<string, unknown>>;
  } catch {
    // Reported below, without the parser's message.
  }
  throw new UserError('--properties must be a JSON object, for example {"max": 100}.');
}

/** Returns the result. @throws UserError with all issues */
function checked<T>(read: (issues: FieldIssue[]) => T | undefined): T {
  const issues: FieldIssue[] = [];
  const result = read(issues);
  if (result === undefined || issues.length > 0)
    throw new UserError(issues.map(({ message }) => message).join('\n'));
  return result;
}

/** Runs work. @throws UserError for errors of the API */
async function withUserErrors(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (cause) {
    throw cause instanceof HttpError ? new UserError(cause.message, { cause }) : cause;
  }
}
