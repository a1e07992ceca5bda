import { sql } from 'kysely';
import type { Database } from '../../engine/database/index.ts';
import type { AuditConfig } from '../../engine/effects/index.ts';
import { UserError } from '../../engine/errors.ts';
import { isRowId } from '../../engine/fields/index.ts';
import {
  type CommandLine,
  formatTable,
  inOrganization,
  jsonResult,
  organizationOption,
} from '../../engine/modules/index.ts';
import { findRow, listRows } from '../../engine/tables/index.ts';
import { TranslatedError } from '../../plugins/admin-ui/shell/index.ts';
import { detailedItems, itemRows, type QueueItem, replayItem, states, withStatus } from './items.ts';
import type { Queue } from './queue.ts';

/** Names for a queue's commands. */
interface QueueCommands {
  /** The first word of the commands. */
  readonly noun: string;
  readonly description: string;
  /** JSON keys for the owner and the details. */
  readonly owner: string;
  readonly detail: string;
  readonly queue: Queue;
}

/** Adds the `list`, `show` and `replay` commands for a queue's items. */
export function queueCommands(
  line: CommandLine<{ readonly config: AuditConfig; readonly database: Database }>,
  commands: QueueCommands,
): void {
  const { queue } = commands;
  const queueCommand = line.program.command(commands.noun).description(commands.description);
  queueCommand
    .command('list')
    .description('list deliveries, newest first')
    .addOption(organizationOption())
    .option('--status <state>', 'only deliveries in this state: waiting, done or dead (failed permanently)')
    .option('--limit <n>', 'maximum number of deliveries', '50')
    .addOption(jsonResult())
    .action((options) =>
      inOrganization(line, options, async ({ tables, organization }) => {
        const { status } = options;
        if (status !== undefined && !states.some((state) => state === status)) {
          throw new UserError(`Unknown state "${status}". Available: ${states.join(', ')}.`);
        }
        const limit = Number(options.limit);
        if (!/^\d{1,4}$/.test(options.limit) || limit < 1 || limit > 1000) {
          throw new UserError('--limit must be between 1 and 1000');
        }
        const where = status === undefined ? [] : [sql.raw(withStatus(status))];
        const items = await listRows(tables, itemRows(queue), organization, { where, limit });
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
      }),
    );
  queueCommand
    .command('show <id>')
    .description('show a delivery and its details')
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((id, options) =>
      inOrganization(line, options, async ({ tables, organization }) => {
        const item = await findRow(tables, detailedItems(queue), organization, itemId(id, commands));
        if (item === undefined) throw new TranslatedError(queue.missing(id));
        const json = { ...toJson(item, commands), [commands.detail]: item.detail };
        const lines = Object.entries(json).map(([key, value]) => `${key.padEnd(12)} ${value ?? ''}`);
        return { json, text: lines.join('\n') };
      }),
    );
  queueCommand
    .command('replay <id>')
    .description('process a delivery again, regardless of its state')
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((id, options) =>
      inOrganization(line, options, async ({ tables, actor, organization }) => {
        await replayItem(tables, queue, actor, organization, itemId(id, commands));
        return {
          json: { id, status: 'waiting' },
          text: `Item ${id} is queued. The server will process it again.`,
        };
      }),
    );
}

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
