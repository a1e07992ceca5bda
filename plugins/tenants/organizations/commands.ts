import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { type AuditConfig, commandLine } from '../../../engine/effects/index.ts';
import { UserError } from '../../../engine/errors.ts';
import {
  assertOutputWritable,
  type CommandLine,
  type CommandOutput,
  type CommandResult,
  confirm,
  formatTable,
  jsonResult,
  writeOutput,
} from '../../../engine/modules/index.ts';
import { organizationId, tablesOf, transaction } from '../../../engine/tables/index.ts';
import { exportOrganization, recordExport } from './export.ts';
import {
  type ConfiguredSlugs,
  createOrganization,
  listOrganizations,
  renameOrganization,
  setPhoneRegion,
} from './organizations.ts';
import { deleteOrganization } from './remove.ts';

/** The parts of an instance that the commands require. */
export interface OrganizationInstance {
  readonly config: AuditConfig;
  readonly database: Database;
  readonly resources: readonly Resource[];
  /** Their records are exported, too. */
  readonly retiredResources?: readonly Resource[];
  /** Reads the slugs from config.yaml. */
  readonly configuredSlugs: () => Promise<ConfiguredSlugs>;
}

type Line = CommandLine<OrganizationInstance>;

/** Registers the `org` commands. */
export function organizationCommands(line: Line): void {
  const org = line.program.command('org').description('manage organizations');
  org
    .command('list')
    .description('list all organizations')
    .addOption(jsonResult())
    .action(({ json }) => line.run(json, list(line)));
  org
    .command('create <slug>')
    .description('create an organization with the profiles administrator and read-only')
    .option('--name <name>', 'name of the organization (default: the slug)')
    .addOption(jsonResult())
    .action((slug, { json, ...options }) => line.run(json, create(line, slug, options)));
  org
    .command('rename <slug>')
    .description('change the name or the slug of an organization')
    .option('--name <name>', 'new name')
    .option('--slug <slug>', 'new slug; the old slug keeps working and stays reserved')
    .addOption(jsonResult())
    .action((slug, { json, ...options }) => line.run(json, rename(line, slug, options)));
  org
    .command('phone-region <slug> <country>')
    .description('set the country of phone numbers without a country code, or "none"')
    .addOption(jsonResult())
    .action((slug, country, { json }) => line.run(json, setRegion(line, slug, country)));
  org
    .command('export <slug> [file]')
    .description('export an organization as NDJSON to a file or to standard output')
    .option('--force', 'overwrite an existing file')
    .addOption(jsonResult())
    .action((slug, file, { json, force }) =>
      line.run(json, exportAll(line, slug, { file, force, isJson: json === true })),
    );
  org
    .command('delete <slug>')
    .description('permanently delete an organization and all its data')
    .option('--yes <slug>', 'confirm without a prompt')
    .addOption(jsonResult())
    .action((slug, { json, yes }) => line.run(json, remove(line, slug, yes)));
}

const list = ({ withInstance }: Line): Promise<CommandResult> =>
  withInstance(async ({ database }) => {
    const organizations = await listOrganizations(tablesOf(database));
    const rows = organizations.map(({ id, slug, name, members, phone_region: region, created_at }) => [
      id,
      slug,
      name,
      String(members),
      region ?? '',
      created_at,
    ]);
    return {
      json: { organizations },
      text:
        rows.length === 0
          ? 'No organizations found.'
          : formatTable(['id', 'slug', 'name', 'members', 'phone region', 'created'], rows),
    };
  });

const create = (
  { withInstance }: Line,
  slug: string,
  { name = slug }: { name?: string | undefined },
): Promise<CommandResult> =>
  withInstance(async ({ database, config, configuredSlugs }) => {
    const actor = commandLine(config);
    const slugsInConfig = await configuredSlugs();
    const id = await transaction(database, (tables) => createOrganization(tables, actor, slug, name));
    return {
      json: { id, slug, name, profiles: ['administrator', 'read-only'] },
      text: `Organization "${slug}" created with the profiles administrator and read-only.${settingNote(slugsInConfig, slug)}`,
    };
  });

/**
 * Returns a line that says which setting in config.yaml applies to the organization that takes a slug. Unlike administrators in
 * the admin UI, the operator, who writes config.yaml, can take such a slug.
 */
function settingNote(slugsInConfig: ConfiguredSlugs, slug: string): string {
  const setting = slugsInConfig.get(slug);
  return setting === undefined
    ? ''
    : `\nconfig.yaml names "${slug}" in ${setting}, so its settings for this slug apply to the organization.`;
}

const rename = async (
  { withInstance }: Line,
  slug: string,
  input: { slug?: string | undefined; name?: string | undefined },
): Promise<CommandResult> => {
  if (input.slug === undefined && input.name === undefined) throw new UserError('specify --name or --slug');
  return withInstance(async ({ database, config, configuredSlugs }) => {
    const slugsInConfig = await configuredSlugs();
    const id = await transaction(database, async (tables) => {
      const organization = await organizationId(tables, slug);
      await renameOrganization(tables, commandLine(config), organization, {
        ...input,
        configured: slugsInConfig,
      });
      return organization;
    });
    const changes = [
      ...(input.slug === undefined ? [] : [`has the slug "${input.slug}"`]),
      ...(input.name === undefined ? [] : [`is called ${input.name.trim()}`]),
    ];
    return {
      json: { id, slug: input.slug ?? slug, ...input },
      text: `"${slug}" now ${changes.join(' and ')}.${input.slug === undefined ? '' : settingNote(slugsInConfig, input.slug)}`,
    };
  });
};

const setRegion = ({ withInstance }: Line, slug: string, country: string): Promise<CommandResult> =>
  withInstance(({ database, config }) =>
    transaction(database, async (tables) => {
      const id = await organizationId(tables, slug);
      const code = country === 'none' ? '' : country;
      const region = await setPhoneRegion(tables, commandLine(config), id, code);
      return {
        json: { id, slug, phone_region: region },
        text:
          region === null
            ? `Phone numbers of "${slug}" are compared only by their digits.`
            : `Phone numbers of "${slug}" without a country code belong to ${region}.`,
      };
    }),
  );

const exportAll = async (
  { withInstance }: Line,
  slug: string,
  output: CommandOutput,
): Promise<CommandResult> => {
  assertOutputWritable(output);
  return withInstance(async (instance) => {
    const id = await organizationId(tablesOf(instance.database), slug);
    await recordExport(instance.database, commandLine(instance.config), id);
    const { database, resources, retiredResources = [] } = instance;
    const stored = { database, resources: [...resources, ...retiredResources] };
    const bytes = await writeOutput(exportOrganization(stored, id), output);
    const { file } = output;
    return {
      json: { id, slug, file, bytes },
      text: file === undefined ? '' : `Wrote ${bytes} bytes to ${file}.`,
    };
  });
};

const remove = ({ withInstance }: Line, slug: string, yes: string | undefined): Promise<CommandResult> =>
  withInstance(async ({ database }) => {
    const id = await organizationId(tablesOf(database), slug);
    await confirm(
      slug,
      `Records, members, keys and history of "${slug}" will be permanently deleted. To keep a copy, run "org export ${slug} FILE" first.`,
      yes,
    );
    const rows = await deleteOrganization(database, id);
    return {
      json: { id, slug, deleted: true, rows },
      text: `Organization "${slug}" deleted (${rows} rows). The slug stays reserved. If config.yaml names it, remove it there.`,
    };
  });
