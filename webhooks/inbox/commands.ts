import type { Database } from '../../engine/database/index.ts';
import { type AuditConfig, commandLine } from '../../engine/effects/index.ts';
import { UserError } from '../../engine/errors.ts';
import { isRowId } from '../../engine/fields/index.ts';
import { asJson, type CommandLine, ofOrganization, type Result, table } from '../../engine/modules/index.ts';
import { organizationId, tablesOf, transaction } from '../../engine/tables/index.ts';
import { type InboxItem, listInbox, replay, showInbox, states } from './inbox.ts';

type Line = CommandLine<{ readonly config: AuditConfig; readonly database: Database }>;

/** `inbox …`: events that channels delivered. */
export function inboxCommands(line: Line): void {
  const { program, run } = line;
  const inbox = program.command('inbox').description('events that channels delivered');
  inbox
    .command('list')
    .description('list deliveries, newest first')
    .addOption(ofOrganization())
    .option('--status <state>', 'only events that are waiting, done or dead (given up)')
    .option('--limit <n>', 'the number of events', '50')
    .addOption(asJson())
    .action(({ json, ...options }) => run(json, list(line, options)));
  inbox
    .command('show <id>')
    .description('show a delivery with its payload')
    .addOption(ofOrganization())
    .addOption(asJson())
    .action((id, { json, ...options }) => run(json, show(line, id, options)));
  inbox
    .command('replay <id>')
    .description('process a delivery again, in any state')
    .addOption(ofOrganization())
    .addOption(asJson())
    .action((id, { json, ...options }) => run(json, replayItem(line, id, options)));
}

const list = (
  { withInstance }: Line,
  options: {
    org: string;
    status?: string | undefined;
    limit: string;
  },
): Promise<Result> =>
  withInstance(async ({ database }) => {
    const { status } = options;
    if (status !== undefined && !states.includes(status)) {
      throw new UserError(`"${status}" is no state; there are ${states.join(', ')}`);
    }
    const limit = Number(options.limit);
    if (!/^\d{1,4}$/.test(options.limit) || limit < 1 || limit > 1000) {
      throw new UserError('--limit must be from 1 to 1000');
    }
    const tables = tablesOf(database);
    const organization = await organizationId(tables, options.org);
    const items = await listInbox(tables, organization, { status, limit });
    const rows = items.map((item) => [
      item.id,
      item.receivedAt.toISOString(),
      item.eventId.slice(0, 50),
      item.status,
      String(item.attempts),
      item.error,
    ]);
    return {
      json: { items: items.map(toJson) },
      text:
        items.length === 0
          ? `"${options.org}" has no such deliveries.`
          : table(['id', 'received', 'event', 'state', 'attempts', 'reason'], rows),
    };
  });

const show = ({ withInstance }: Line, id: string, { org }: { org: string }): Promise<Result> =>
  withInstance(async ({ database }) => {
    const tables = tablesOf(database);
    const item = await showInbox(tables, await organizationId(tables, org), itemId(id));
    const json = { ...toJson(item), payload: item.payload };
    const lines = Object.entries(json).map(([key, value]) => `${key.padEnd(12)} ${value ?? ''}`);
    return { json, text: lines.join('\n') };
  });

const replayItem = ({ withInstance }: Line, id: string, { org }: { org: string }): Promise<Result> =>
  withInstance(async ({ database, config }) => {
    const actor = commandLine(config);
    await transaction(database, async (tables) =>
      replay(tables, actor, await organizationId(tables, org), itemId(id)),
    );
    return { json: { id, status: 'waiting' }, text: `Item ${id} waits to be processed again by the server.` };
  });

function itemId(id: string): string {
  if (!isRowId(id)) throw new UserError(`"${id}" is no id of an inbox item; "inbox list" shows them`);
  return id;
}

const toJson = (item: InboxItem) => ({
  id: item.id,
  integration: item.integration,
  event: item.eventId,
  status: item.status,
  attempts: item.attempts,
  reason: item.error,
  received_at: item.receivedAt.toISOString(),
});
