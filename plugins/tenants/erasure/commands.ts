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
import { createErasure } from './erasure.ts';
import { asJsonObject, describeTraces, mentionsOf } from './texts.ts';

type Line = CommandLine<{
  readonly config: AuditConfig;
  readonly database: Database;
  readonly resources: readonly Resource[];
}>;

/** `person forget`. */
export function erasureCommands(line: Line): void {
  line.program
    .command('person')
    .description('people that records are about')
    .command('forget')
    .description('show what there is of a person, and erase it with --erase')
    .addOption(organizationOption())
    .option('--records <resource?filter...>', 'the person’s records, as in resource?filter=value', [])
    .option('--text <text...>', 'what only this person has, as in +49 170 1234567', [])
    .option('--erase', 'erase it; it cannot be brought back')
    .addOption(jsonResult())
    .action(({ json, ...options }) => line.run(json, forget(line, options)));
}

interface Options {
  readonly org: string;
  readonly records: string[];
  readonly text: string[];
  readonly erase?: true | undefined;
}

const forget = ({ withInstance }: Line, { org, records, text, erase }: Options): Promise<CommandResult> =>
  withInstance(async ({ database, config, resources }) => {
    const forgetting = createErasure(resources);
    const tables = tablesOf(database);
    const wish = { organization: await organizationId(tables, org), records, texts: text };
    const traces = await forgetting.find({ run: async (query) => (await query.execute(tables)).rows }, wish);
    if (erase) {
      await transaction(database, (within) => forgetting.forget(within, commandLine(config), wish, traces));
    }
    const places = describeTraces(traces);
    const mentions = mentionsOf(traces);
    const lines = [
      places.length === 0
        ? 'There is nothing of this person.'
        : formatTable(['where', erase ? 'erased' : 'what'], places),
      ...(traces.texts.length > 0 ? [`Looked for: ${traces.texts.join(', ')}`] : []),
      ...(mentions === '' ? [] : [`Also mentioned, and left as it is: ${mentions}`]),
      ...(erase || places.length === 0 ? [] : ['Nothing was erased. With --erase it is, for good.']),
    ];
    return { json: { erased: erase === true, ...asJsonObject(traces) }, text: lines.join('\n') };
  });
