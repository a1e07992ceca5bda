import type { Database } from '../../../engine/database/index.ts';
import type { AuditConfig } from '../../../engine/effects/index.ts';
import {
  type CommandLine,
  formatTable,
  inOrganization,
  jsonResult,
  organizationOption,
} from '../../../engine/modules/index.ts';
import { listRows } from '../../../engine/tables/index.ts';
import { findMember, listMembers } from '../identity/index.ts';
import {
  addTeamMember,
  createTeam,
  deleteTeam,
  removeTeamMember,
  renameTeam,
  teamId,
  teamRows,
} from './teams.ts';

/** Adds the `team` commands. */
export function teamCommands(
  line: CommandLine<{ readonly config: AuditConfig; readonly database: Database }>,
): void {
  const team = line.program
    .command('team')
    .description("manage an organization's teams, whose members share records through scopes with my_team");
  team
    .command('list')
    .description("list an organization's teams and their members")
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((options) =>
      inOrganization(line, options, async ({ tables, organization }) => {
        const people = new Map(
          (await listMembers(tables, organization)).map(({ id, email }) => [id, { id, email }]),
        );
        const teams = (await listRows(tables, teamRows, organization)).map(({ id, name, members }) => ({
          ...{ id, name },
          members: members.flatMap((user) => people.get(user) ?? []),
        }));
        return {
          json: { teams },
          text:
            teams.length === 0
              ? `"${options.org}" has no teams.`
              : formatTable(
                  ['id', 'name', 'members'],
                  teams.map(({ id, name, members }) => [
                    ...[id, name],
                    members.map(({ email }) => email).join(' '),
                  ]),
                ),
        };
      }),
    );
  team
    .command('create <name>')
    .description('create a team without members')
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((name, options) =>
      inOrganization(line, options, async ({ tables, actor, organization }) => {
        const id = await createTeam(tables, actor, organization, name);
        return { json: { id, name }, text: `Team "${name}" created in "${options.org}".` };
      }),
    );
  team
    .command('rename <name> <new-name>')
    .description('rename a team, keeping its members')
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((name, newName, options) =>
      inOrganization(line, options, async ({ tables, actor, organization }) => {
        const id = await teamId(tables, organization, name);
        await renameTeam(tables, actor, organization, id, newName);
        return { json: { id, name: newName }, text: `Team "${name}" renamed to "${newName}".` };
      }),
    );
  team
    .command('delete <name>')
    .description('delete a team; its members remain members of the organization')
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((name, options) =>
      inOrganization(line, options, async ({ tables, actor, organization }) => {
        const id = await teamId(tables, organization, name);
        await deleteTeam(tables, actor, organization, id);
        return { json: { id, name, deleted: true }, text: `Team "${name}" of "${options.org}" deleted.` };
      }),
    );
  for (const [command, change, description, participle] of [
    ['add', addTeamMember, 'add members of the organization to a team', 'added to'],
    ['remove', removeTeamMember, 'remove members from a team', 'removed from'],
  ] as const) {
    team
      .command(`${command} <name> <users...>`)
      .description(`${description}; a user is an email address or ID`)
      .addOption(organizationOption())
      .addOption(jsonResult())
      .action((name, users, options) =>
        inOrganization(line, options, async ({ tables, actor, organization }) => {
          const id = await teamId(tables, organization, name);
          const emails: string[] = [];
          for (const user of users) {
            const member = await findMember(tables, organization, user);
            await change(tables, actor, organization, id, member.id);
            emails.push(member.email);
          }
          return {
            json: { id, name, users: emails },
            text: `${emails.join(', ')} ${participle} the team "${name}" of "${options.org}".`,
          };
        }),
      );
  }
}
