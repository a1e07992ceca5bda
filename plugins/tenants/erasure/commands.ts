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
import { organizationCustomFields } from '../../../engine/records/index.ts';
import { organizationId, tablesOf, transaction } from '../../../engine/tables/index.ts';
import { createErasure } from './erase-person.ts';
import { asJsonObject, describeTraces, mentionsOf } from './erasure-requests.ts';

type Line = CommandLine<{
  readonly config: AuditConfig;
  readonly database: Database;
  readonly resources: readonly Resource[];
  /** Their records are erased, too. */
  readonly retiredResources?: readonly Resource[];
}>;

/** Adds the `person forget` command. */
export function erasureCommands(line: Line): void {
  line.program
    .command('person')
    .description('manage personal data in records')
    .command('forget')
    .description('show the data stored about a person, or erase it with --erase')
    .addOption(organizationOption())
    .option(
      '--records <resource?filter...>',
      'the person’s records, for example <resource>?email=zoe@example.com',
      [],
    )
    .option('--text <text...>', 'search terms unique to this person, for example "+49 170 1234567"', [])
    .option('--erase', 'erase the data permanently')
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
  withInstance(async ({ database, config, resources, retiredResources = [] }) => {
    const erasure = createErasure([...resources, ...retiredResources]);
    const tables = tablesOf(database);
    const organization = await organizationId(tables, org);
    const customFields = await organizationCustomFields(database, resources, organization);
    const input = { organization, records, texts: text, customFields };
    const traces = await erasure.find({ run: async (query) => (await query.execute(tables)).rows }, input);
    if (erase) {
      await transaction(database, (tx) => erasure.erase(tx, commandLine(config), input, traces));
    }
    const places = describeTraces(traces);
    const mentions = mentionsOf(traces);
    const lines = [
      places.length === 0
        ? 'No data about this person was found.'
        : formatTable(['where', erase ? 'erased' : 'what'], places),
      ...(traces.texts.length > 0 ? [`Searched for: ${traces.texts.join(', ')}`] : []),
      ...(mentions === '' ? [] : [`Also mentioned in records that are left unchanged: ${mentions}`]),
      ...(erase || places.length === 0
        ? []
        : ['Nothing was erased. To erase this data permanently, pass --erase.']),
    ];
    return { json: { erased: erase === true, ...asJsonObject(traces) }, text: lines.join('\n') };
  });
