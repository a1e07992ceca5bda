import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import type { AuditConfig } from '../../../engine/effects/index.ts';
import {
  type CommandLine,
  formatTable,
  inOrganization,
  jsonResult,
  organizationOption,
} from '../../../engine/modules/index.ts';
import { findRow, listRows } from '../../../engine/tables/index.ts';
import {
  adjustProfile,
  createProfile,
  deleteProfile,
  grantableObjects,
  parseGrant,
  profileId,
  profileRows,
} from './profiles.ts';

/** Adds the `profile` commands. */
export function profileCommands(
  line: CommandLine<{
    readonly config: AuditConfig;
    readonly database: Database;
    readonly resources: readonly Resource[];
  }>,
): void {
  const profileCommand = line.program
    .command('profile')
    .description("manage an organization's profiles (sets of grants)");
  profileCommand
    .command('list')
    .description("list an organization's profiles and their grants")
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((options) =>
      inOrganization(line, options, async ({ tables, organization }) => {
        const rows = await listRows(tables, profileRows, organization);
        return {
          json: {
            profiles: rows.map(({ builtIn: built_in, grants, ...row }) => ({ ...row, built_in, grants })),
          },
          text: formatTable(
            ['id', 'name', 'grants'],
            rows.map(({ id, name, grants }) => [id, name, grants.join(' ')]),
          ),
        };
      }),
    );
  profileCommand
    .command('create <name>')
    .description('create a profile')
    .addOption(organizationOption())
    .requiredOption('--grant <grants...>', 'object:action,action; "*" means all, for example *:list,read')
    .addOption(jsonResult())
    .action((name, options) =>
      inOrganization(line, options, async ({ tables, actor, organization, instance: { resources } }) => {
        const objects = grantableObjects(resources);
        const grants = options.grant.map((text) => parseGrant(text, objects));
        const id = await createProfile(tables, actor, organization, name, grants);
        return {
          json: { id, name, organization: options.org, grants },
          text: `Profile "${name}" created in "${options.org}" with ${grants.length} grant(s).`,
        };
      }),
    );
  for (const [command, change, description] of [
    ['grant', 'add', 'add grants to a profile'],
    ['revoke', 'remove', 'remove grants from a profile; "crm profile list" shows them'],
  ] as const) {
    profileCommand
      .command(`${command} <name> <grants...>`)
      .description(description)
      .addOption(organizationOption())
      .addOption(jsonResult())
      .action((name, texts, options) =>
        inOrganization(line, options, async ({ tables, actor, organization, instance: { resources } }) => {
          const objects = grantableObjects(resources);
          const grants = texts.map((text) => parseGrant(text, objects));
          const id = await profileId(tables, organization, name);
          await adjustProfile(tables, actor, organization, id, { [change]: grants });
          const remaining = (await findRow(tables, profileRows, organization, id))?.grants ?? [];
          return {
            json: { id, name, organization: options.org, grants: remaining },
            text: `Profile "${name}" of "${options.org}" now grants ${remaining.join(' ') || 'nothing'}.`,
          };
        }),
      );
  }
  profileCommand
    .command('delete <name>')
    .description('delete a profile that is not used by a member, key or invitation')
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((name, options) =>
      inOrganization(line, options, async ({ tables, actor, organization }) => {
        const id = await profileId(tables, organization, name);
        await deleteProfile(tables, actor, organization, id);
        return { json: { id, name, deleted: true }, text: `Profile "${name}" of "${options.org}" deleted.` };
      }),
    );
}
