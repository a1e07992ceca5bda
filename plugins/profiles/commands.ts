import type { Resource } from '../../engine/compile/index.ts';
import type { Database } from '../../engine/database/index.ts';
import { type AuditConfig, commandLine } from '../../engine/effects/index.ts';
import { asJson, type CommandLine, ofOrganization, type Result } from '../../engine/modules/index.ts';
import { organizationId, transaction } from '../../engine/tables/index.ts';
import { createProfile, grantable, parseGrant } from './profiles.ts';

type Line = CommandLine<{
  readonly config: AuditConfig;
  readonly database: Database;
  readonly resources: readonly Resource[];
}>;

/** `profile create`. */
export function profileCommands(line: Line): void {
  line.program
    .command('profile')
    .description('profiles: what their holders may do')
    .command('create <name>')
    .description('create a profile')
    .addOption(ofOrganization())
    .requiredOption('--grant <grants...>', 'object:action,action; * * means all, as in *:list,read')
    .addOption(asJson())
    .action((name, { json, ...options }) => line.run(json, create(line, name, options)));
}

const create = (
  { withInstance }: Line,
  name: string,
  { org, grant }: { org: string; grant: readonly string[] },
): Promise<Result> =>
  withInstance(async ({ database, resources, config }) => {
    const actor = commandLine(config);
    const objects = grantable(resources);
    const grants = grant.map((text) => parseGrant(text, objects));
    const id = await transaction(database, async (tables) =>
      createProfile(tables, actor, await organizationId(tables, org), name, grants),
    );
    return {
      json: { id, name, organization: org, grants },
      text: `Profile "${name}" made in "${org}", with ${grant.length} grant(s).`,
    };
  });
