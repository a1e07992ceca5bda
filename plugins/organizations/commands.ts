import type { Database } from '../../engine/database/index.ts';
import { type AuditConfig, commandLine } from '../../engine/effects/index.ts';
import { asJson, type CommandLine, type Result } from '../../engine/modules/index.ts';
import { transaction } from '../../engine/tables/index.ts';
import { createOrganization } from './organizations.ts';

type Line = CommandLine<{ readonly config: AuditConfig; readonly database: Database }>;

/** `org create`. */
export function organizationCommands(line: Line): void {
  line.program
    .command('org')
    .description('organizations')
    .command('create <slug>')
    .description('create an organization with the profiles administrator and read-only')
    .option('--name <name>', 'its name; default: the slug')
    .addOption(asJson())
    .action((slug, { json, ...options }) => line.run(json, create(line, slug, options)));
}

const create = (
  { withInstance }: Line,
  slug: string,
  { name = slug }: { name?: string | undefined },
): Promise<Result> =>
  withInstance(async ({ database, config }) => {
    const actor = commandLine(config);
    const id = await transaction(database, (tables) => createOrganization(tables, actor, slug, name));
    return {
      json: { id, slug, name, profiles: ['administrator', 'read-only'] },
      text: `Organization "${slug}" made, with the profiles administrator and read-only.`,
    };
  });
