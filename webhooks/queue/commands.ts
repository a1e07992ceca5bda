import type { Database } from '../../engine/database/index.ts';
import { type AuditConfig, commandLine } from '../../engine/effects/index.ts';
import { UserError } from '../../engine/errors.ts';
import { isRowId } from '../../engine/fields/index.ts';
import {
  type CommandLine,
  type CommandResult,
  formatTable,
  jsonResult,
  organizationOption,
} from '../../engine/modules/index.ts';
import { organizationId, tablesOf, transaction } from '../../engine/tables/index.ts';
import { listItems, type QueueItem, replayItem, showItem, states } from './items.ts';
import type { Queue } from './queue.ts';

type Line = CommandLine<{ readonly config: AuditConfig; readonly database: Database }>;

/** Names of a queue's commands. */
export interface QueueCommands {
  /** The first word of the commands. */
  readonly noun: string;
  readonly description: string;
  /** JSON keys for the owner and the details. */
  readonly owner: string;
  readonly detail: string;
  readonly queue: Queue;
}

/** Adds the `list`, `show` and `replay` commands for a queue's items. */
export function queueCommands(line: Line, commands: QueueCommands): void {
  const { program, run } = line;
  const queueCommand = program.command(commands.noun).description(commands.description);
  queueCommand
    .command('list')
    .description('list deliveries, newest first')
    .addOption(organizationOption())
    .option('--status <state>', 'only deliveries in this state: waiting, done or dead (failed permanently)')
    .option('--limit <n>', 'maximum number of deliveries', '50')
    .addOption(jsonResult())
    .action(({ json, ...options }) => run(json, list(line, commands, options)));
  queueCommand
    .command('show <id>')
    .description('show a delivery and its details')
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((id, { json, ...options }) => run(json, show(line, commands, id, options)));
  queueCommand
    .command('replay <id>')
    .description('process a delivery again, regardless of its state')
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((id, { json, ...options }) => run(json, replay(line, commands, id, options)));
}

const list = (
  { withInstance }: Line,
  commands: QueueCommands,
  options: {
    org: string;
    status?: string | undefined;
    limit: string;
  },
): Promise<CommandResult> =>
  withInstance(async ({ database }) => {
    const { status } = options;
    if (status !== undefined && !states.includes(status)) {
      throw new UserError(`Unknown state "${status}". Available: ${states.join(', ')}.`);
    }
    const limit = Number(options.limit);
    if (!/^\d{1,4}$/.test(options.limit) || limit < 1 || limit > 1000) {
      throw new UserError('--limit must be between 1 and 1000');
    }
    const tables = tablesOf(database);
    const organization = await organizationId(tables, options.org);
    const items = await listItems(tables, commands.queue, organization, { status, limit });
    const rows = items.map((item) => [
      item.id,
      item.receivedAt.toISOString(),
      item.title.slice(0, 50),
      item.status,
      String(item.attempts),
      item.error,
    ]);
    return {
      json: { items: items.map((item) => toJson(item, commands)) },
      text:
        items.length === 0
          ? `"${options.org}" has no matching deliveries.`
          : formatTable(['id', 'received', 'event', 'state', 'attempts', 'reason'], rows),
    };
  });

const show = (
  { withInstance }: Line,
  commands: QueueCommands,
  id: string,
  { org }: { org: string },
): Promise<CommandResult> =>
  withInstance(async ({ database }) => {
    const tables = tablesOf(database);
    const item = await showItem(
      tables,
      commands.queue,
      await organizationId(tables, org),
      itemId(id, commands),
    );
    const json = { ...toJson(item, commands), [commands.detail]: item.detail };
    const lines = Object.entries(json).map(([key, value]) => `${key.padEnd(12)} ${value ?? ''}`);
    return { json, text: lines.join('\n') };
  });

const replay = (
  { withInstance }: Line,
  commands: QueueCommands,
  id: string,
  { org }: { org: string },
): Promise<CommandResult> =>
  withInstance(async ({ database, config }) => {
    const actor = commandLine(config);
    await transaction(database, async (tables) =>
      replayItem(tables, commands.queue, actor, await organizationId(tables, org), itemId(id, commands)),
    );
    return {
      json: { id, status: 'waiting' },
      text: `Item ${id} is queued. The server will process it again.`,
    };
  });

function itemId(id: string, { noun, queue }: QueueCommands): string {
  if (!isRowId(id))
    throw new UserError(`"${id}" is not an ${queue.item} ID. List IDs with "crm ${noun} list".`);
  return id;
}

const toJson = (item: QueueItem, { owner }: QueueCommands) => ({
  id: item.id,
  [owner]: item.owner,
  event: item.title,
  status: item.status,
  attempts: item.attempts,
  reason: item.error,
  received_at: item.receivedAt.toISOString(),
});
