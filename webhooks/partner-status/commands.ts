import type { Resource } from '../../engine/compile/index.ts';
import type { Database } from '../../engine/database/index.ts';
import { type CommandLine, type CommandResult, formatTable, jsonResult } from '../../engine/modules/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { readSettings, type SettingsConfig } from '../settings/index.ts';
import { partnerStatus } from './status.ts';

type Line = CommandLine<{
  readonly config: SettingsConfig;
  readonly database: Database;
  readonly retiredResources?: readonly Resource[];
}>;

/** Adds the `partners` command. */
export function partnerCommands(line: Line): void {
  line.program
    .command('partners')
    .description(
      'show whether partner endpoints are on, off (501) or misconfigured, and when their secrets were last used',
    )
    .addOption(jsonResult())
    .action(({ json }) => line.run(json, show(line)));
}

const show = ({ withInstance }: Line): Promise<CommandResult> =>
  withInstance(async ({ config, database, retiredResources }) => {
    const settings = await readSettings(config);
    const endpoints = await partnerStatus(tablesOf(database), settings, retiredResources);
    const rows = endpoints.map(({ name, path, state, problem, secrets }) => [
      name,
      path,
      state === 'off' ? 'off (501)' : state,
      secrets.map(({ place, last_used_at }) => `#${place}: ${last_used_at ?? 'never'}`).join(', '),
      problem?.('en') ?? '',
    ]);
    return {
      json: {
        partners: endpoints.map(({ problem, ...endpoint }) => ({
          ...endpoint,
          problem: problem?.('en') ?? '',
        })),
      },
      text: formatTable(['endpoint', 'path', 'state', 'secrets, last used', 'problem'], rows),
    };
  });
