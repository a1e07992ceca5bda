import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import type { AuditConfig } from '../../../engine/effects/index.ts';
import { pluralize, UserError } from '../../../engine/errors.ts';
import {
  type CommandLine,
  formatTable,
  inOrganization,
  jsonResult,
  organizationOption,
} from '../../../engine/modules/index.ts';
import { compileGrants, type Principal } from '../../../engine/records/index.ts';
import { findRow, listRows, organizationId, type Tables, tablesOf } from '../../../engine/tables/index.ts';
import { decide } from './decision.ts';
import {
  describeActions,
  describeGrants,
  grantableObjects,
  parseGrant,
  splitGrant,
  storedGrant,
} from './grants.ts';
import { adjustProfile, createProfile, deleteProfile, profileId, profileRows } from './profiles.ts';

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
    .command('show <name>')
    .description('describe what a profile grants on each object')
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((name, options) =>
      inOrganization(line, options, async ({ tables, organization, instance: { resources } }) => {
        const id = await profileId(tables, organization, name);
        const { grants = [], builtIn = false } = (await findRow(tables, profileRows, organization, id)) ?? {};
        const objects = grantableObjects(resources);
        const descriptions = objects.flatMap((object) => {
          const actions = describeActions(grants, object, 'en');
          return actions === '' ? [] : [[object.name, actions] as const];
        });
        return {
          json: { id, name, built_in: builtIn, grants, description: Object.fromEntries(descriptions) },
          text:
            descriptions.length === 0
              ? describeGrants(grants, objects, 'en')
              : formatTable(['object', 'actions'], descriptions),
        };
      }),
    );
  profileCommand
    .command('test <name> <method> <path>')
    .description('explain whether a profile allows a request for records')
    .addOption(organizationOption())
    .option('--as <email>', 'the member who sends the request, for scopes that depend on the caller')
    .addOption(jsonResult())
    .action((name, method, path, options) =>
      line.run(
        options.json,
        line.withInstance(async (instance) => {
          const principal = await testedPrincipal(tablesOf(instance.database), name, options);
          const decision = await decide(instance, principal, method, path);
          const { allowed, status, reason, grant } = decision;
          const hint = grant === undefined ? '' : ` The grant ${grant} would allow it.`;
          return {
            json: { profile: name, ...decision },
            text: `${allowed ? 'Allowed' : `Rejected with ${status}`}: ${reason}.${hint}`,
          };
        }),
      ),
    );
  profileCommand
    .command('create <name>')
    .description('create a profile')
    .addOption(organizationOption())
    .requiredOption(
      '--grant <grants...>',
      'object:action,action or object:action,action:scope; "*" means all, for example *:list,read',
    )
    .addOption(jsonResult())
    .action((name, options) =>
      inOrganization(line, options, async ({ tables, actor, organization, instance: { resources } }) => {
        const objects = grantableObjects(resources);
        const grants = options.grant.map((text) => parseGrant(text, objects));
        const id = await createProfile(tables, actor, organization, name, grants);
        return {
          json: { id, name, organization: options.org, grants },
          text: `Profile "${name}" created in "${options.org}" with ${pluralize(grants.length, 'grant')}.`,
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
          // Grants that name something that no longer exists can be removed.
          const grants = texts.map((text) =>
            change === 'add' ? parseGrant(text, objects) : splitGrant(text),
          );
          const id = await profileId(tables, organization, name);
          await adjustProfile(tables, actor, organization, id, { [change]: grants }, objects);
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

/** Returns the ID of the organization's member with this email address. @throws UserError if it does not exist */
async function memberId(tables: Tables, organization: string, email: string): Promise<string> {
  const row = await tables
    .selectFrom('crm_memberships as m')
    .innerJoin('crm_users as u', 'u.id', 'm.user_id')
    .select('u.id')
    .where('m.organization_id', '=', organization)
    .where('u.email', '=', email.toLowerCase())
    .executeTakeFirst();
  if (row === undefined) throw new UserError(`no member of this organization has the email address ${email}`);
  return row.id;
}

/**
 * Returns a caller with a profile's grants: the member with an email address, or an API key.
 * @throws UserError if the organization, the profile or the member does not exist
 */
async function testedPrincipal(
  tables: Tables,
  profile: string,
  { org, as: email }: { readonly org: string; readonly as?: string | undefined },
): Promise<Principal> {
  const organization = await organizationId(tables, org);
  const id = await profileId(tables, organization, profile);
  const { grants = [] } = (await findRow(tables, profileRows, organization, id)) ?? {};
  const user = email === undefined ? null : await memberId(tables, organization, email);
  const caller = { actor: user, user, name: email ?? null };
  return {
    kind: user === null ? 'key' : 'user',
    ...caller,
    organization,
    grants: compileGrants(grants.map(storedGrant)),
  };
}
