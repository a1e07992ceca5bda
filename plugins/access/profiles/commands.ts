import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { type AuditConfig, commandLine } from '../../../engine/effects/index.ts';
import {
  type CommandLine,
  type CommandResult,
  formatTable,
  jsonResult,
  organizationOption,
} from '../../../engine/modules/index.ts';
import { organizationId, tablesOf, transaction } from '../../../engine/tables/index.ts';
import {
  adjustProfile,
  createProfile,
  deleteProfile,
  grantableObjects,
  listProfiles,
  parseGrant,
  profileId,
} from './profiles.ts';

type Line = CommandLine<{
  readonly config: AuditConfig;
  readonly database: Database;
  readonly resources: readonly Resource[];
}>;

interface Options {
  readonly org: string;
}

/** Adds the `profile` commands. */
export function profileCommands(line: Line): void {
  const profile = line.program
    .command('profile')
    .description("manage an organization's profiles (sets of grants)");
  profile
    .command('list')
    .description('list the profiles of an organization with their grants')
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action(({ json, org }) => line.run(json, list(line, org)));
  profile
    .command('create <name>')
    .description('create a profile')
    .addOption(organizationOption())
    .requiredOption('--grant <grants...>', 'object:action,action; "*" means all, for example *:list,read')
    .addOption(jsonResult())
    .action((name, { json, ...options }) => line.run(json, create(line, name, options)));
  profile
    .command('grant <name> <grants...>')
    .description('add grants to a profile')
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((name, grants, { json, org }) => line.run(json, adjust(line, name, 'add', grants, org)));
  profile
    .command('revoke <name> <grants...>')
    .description('remove grants from a profile; "crm profile list" shows them')
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((name, grants, { json, org }) => line.run(json, adjust(line, name, 'remove', grants, org)));
  profile
    .command('delete <name>')
    .description('delete a profile that is not used by a member, key or invitation')
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((name, { json, org }) => line.run(json, remove(line, name, org)));
}

const list = ({ withInstance }: Line, org: string): Promise<CommandResult> =>
  withInstance(async ({ database }) => {
    const tables = tablesOf(database);
    const stored = await listProfiles(tables, await organizationId(tables, org));
    const profiles = stored.map(({ grants, builtIn, ...rest }) => ({
      ...rest,
      built_in: builtIn,
      grants: [...grants].sort(),
    }));
    return {
      json: { profiles },
      text: formatTable(
        ['id', 'name', 'grants'],
        profiles.map(({ id, name, grants }) => [id, name, grants.join(' ')]),
      ),
    };
  });

const create = (
  { withInstance }: Line,
  name: string,
  { org, grant }: Options & { readonly grant: readonly string[] },
): Promise<CommandResult> =>
  withInstance(async ({ database, resources, config }) => {
    const actor = commandLine(config);
    const objects = grantableObjects(resources);
    const grants = grant.map((text) => parseGrant(text, objects));
    const id = await transaction(database, async (tables) =>
      createProfile(tables, actor, await organizationId(tables, org), name, grants),
    );
    return {
      json: { id, name, organization: org, grants },
      text: `Profile "${name}" created in "${org}" with ${grant.length} grant(s).`,
    };
  });

const adjust = (
  { withInstance }: Line,
  name: string,
  change: 'add' | 'remove',
  texts: readonly string[],
  org: string,
): Promise<CommandResult> =>
  withInstance(async ({ database, resources, config }) => {
    const objects = grantableObjects(resources);
    const grants = texts.map((text) => parseGrant(text, objects));
    const profile = await transaction(database, async (tables) => {
      const organization = await organizationId(tables, org);
      const id = await profileId(tables, organization, name);
      await adjustProfile(tables, commandLine(config), organization, id, { [change]: grants });
      return (await listProfiles(tables, organization)).find((row) => row.id === id);
    });
    const remaining = [...(profile?.grants ?? [])].sort();
    return {
      json: { id: profile?.id, name, organization: org, grants: remaining },
      text: `Profile "${name}" of "${org}" now grants ${remaining.join(' ') || 'nothing'}.`,
    };
  });

const remove = ({ withInstance }: Line, name: string, org: string): Promise<CommandResult> =>
  withInstance(async ({ database, config }) => {
    const id = await transaction(database, async (tables) => {
      const organization = await organizationId(tables, org);
      const profile = await profileId(tables, organization, name);
      await deleteProfile(tables, commandLine(config), organization, profile);
      return profile;
    });
    return { json: { id, name, deleted: true }, text: `Profile "${name}" of "${org}" deleted.` };
  });
