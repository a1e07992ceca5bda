import type { Resource } from '../../engine/compile/index.ts';
import type { Database } from '../../engine/database/index.ts';
import { type Actor, type AuditConfig, commandLine } from '../../engine/effects/index.ts';
import { type FieldIssue, UserError } from '../../engine/errors.ts';
import { isRowId } from '../../engine/fields/index.ts';
import {
  type CommandLine,
  type CommandResult,
  formatTable,
  jsonResult,
  organizationOption,
} from '../../engine/modules/index.ts';
import { organizationId, type Tables, tablesOf, transaction } from '../../engine/tables/index.ts';
import { profileId } from '../../plugins/access/profiles/index.ts';
import { type InstanceSecrets, type Sealing, sealing } from '../../plugins/access/secrets/index.ts';
import { feedEnd } from '../../plugins/change-log/index.ts';
import { readSettings, type SettingsConfig } from '../settings/index.ts';
import { checkFilter, readSubscriptionInput, type SubscriptionInput } from './input.ts';
import {
  changeSubscription,
  createSubscription,
  listSubscriptions,
  overlapHours,
  removeSubscription,
  replaySubscription,
  rotateSecret,
  sendTest,
} from './subscriptions.ts';

type Line = CommandLine<{
  readonly config: AuditConfig & SettingsConfig;
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly secrets: InstanceSecrets;
}>;

/** `subscription …`: where changes are sent. */
export function subscriptionCommands(line: Line): void {
  const { program, run } = line;
  const subscription = program.command('subscription').description('addresses that changes are sent to');
  subscription
    .command('list')
    .description('list the event subscriptions')
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action(({ json, ...options }) => run(json, list(line, options)));
  subscription
    .command('create <url>')
    .description('send changes to an address; the secret that signs them is printed once')
    .addOption(organizationOption())
    .requiredOption('--resources <names...>', 'the resources whose changes are sent')
    .option('--actions <actions...>', 'create, update, delete; default: all')
    .option('--filter <parameters>', 'only records that a list with these parameters has, as in status=New')
    .requiredOption('--profile <name>', 'what the events may show')
    .addOption(jsonResult())
    .action((url, { json, ...options }) => run(json, create(line, url, options)));
  for (const [name, [description, work]] of Object.entries(works)) {
    subscription
      .command(`${name} <id>`)
      .description(description)
      .addOption(organizationOption())
      .addOption(jsonResult())
      .action((id, { json, org }) => run(json, about(line, id, org, work)));
  }
  subscription
    .command('replay <id>')
    .description('send deliveries again, by their ids')
    .addOption(organizationOption())
    .requiredOption('--from <delivery>', 'the first one; "delivery list" shows them')
    .option('--to <delivery>', 'the last one; default: only the first')
    .addOption(jsonResult())
    .action((id, { json, org, from, to = from }) =>
      run(
        json,
        about(line, id, org, async ({ tables, actor, organization }) => {
          for (const each of [from, to])
            if (!isRowId(each)) throw new UserError(`"${each}" is no id of a delivery`);
          const queued = await replaySubscription(tables, actor, organization, id, { from, to });
          return { json: { id, queued }, text: `${queued} deliveries wait to be sent again by the server.` };
        }),
      ),
    );
}

/** A command about one subscription, within a transaction. */
type Work = (context: {
  readonly tables: Tables;
  readonly actor: Actor;
  readonly organization: string;
  readonly id: string;
  readonly sealing: Sealing;
}) => Promise<CommandResult>;

const switching =
  (state: 'on' | 'off'): Work =>
  async ({ tables, actor, organization, id }) => {
    await changeSubscription(tables, actor, organization, id, { state });
    return { json: { id, state }, text: `Event subscription ${id} is ${state}.` };
  };

const works: Readonly<Record<string, readonly [description: string, work: Work]>> = {
  on: ['switch it on: it goes on where it was', switching('on')],
  off: ['switch it off: changes are kept in the ledger', switching('off')],
  rotate: [
    'give it a new secret, which is printed once',
    async ({ tables, actor, organization, id, sealing: sealed }) => {
      const secret = await rotateSecret(tables, actor, sealed, organization, id);
      return {
        json: { id, secret },
        text: `The secret before signs as well for ${overlapHours} hours. The new one, shown this once:\n${secret}`,
      };
    },
  ],
  test: [
    'send an event without a record',
    async ({ tables, organization, id }) => {
      const delivery = await sendTest(tables, organization, id);
      return { json: { id, delivery }, text: `Delivery ${delivery} waits to be sent by the server.` };
    },
  ],
  delete: [
    'delete it with its deliveries',
    async ({ tables, actor, organization, id }) => {
      await removeSubscription(tables, actor, organization, id);
      return { json: { id, deleted: true }, text: `Event subscription ${id} is deleted.` };
    },
  ],
};

const about = ({ withInstance }: Line, id: string, org: string, work: Work): Promise<CommandResult> =>
  withInstance(async ({ config, database, secrets }) => {
    if (!isRowId(id))
      throw new UserError(`"${id}" is no id of an event subscription; "subscription list" shows them`);
    const actor = commandLine(config);
    return transaction(database, async (tables) =>
      work({ tables, actor, organization: await organizationId(tables, org), id, sealing: sealing(secrets) }),
    );
  });

const list = ({ withInstance }: Line, { org }: { org: string }): Promise<CommandResult> =>
  withInstance(async ({ database }) => {
    const tables = tablesOf(database);
    const all = await listSubscriptions(tables, await organizationId(tables, org));
    const rows = all.map((each) => [
      each.id,
      each.url,
      each.resources.join(','),
      each.actions.join(','),
      each.profile,
      each.state,
    ]);
    return {
      json: { subscriptions: all },
      text:
        all.length === 0
          ? `"${org}" has no event subscriptions.`
          : formatTable(['id', 'url', 'resources', 'actions', 'profile', 'state'], rows),
    };
  });

const create = (
  { withInstance }: Line,
  url: string,
  { org, profile, ...given }: { readonly org: string; readonly profile: string } & Partial<SubscriptionInput>,
): Promise<CommandResult> =>
  withInstance(async ({ config, database, resources, secrets }) => {
    if (!config.audit) throw new UserError('this instance records no changes (AUDIT=false)');
    const problems: FieldIssue[] = [];
    const { events } = await readSettings(config);
    const wish = readSubscriptionInput(
      { url, ...given },
      true,
      resources,
      events,
      problems,
    ) as SubscriptionInput;
    if (problems.length === 0) checkFilter(wish, resources, problems);
    if (problems.length > 0) throw new UserError(problems.map(({ message }) => message).join('\n'));
    const { end: place } = await feedEnd(database);
    const { id, secret } = await transaction(database, async (tables) => {
      const organization = await organizationId(tables, org);
      return createSubscription(tables, commandLine(config), sealing(secrets), {
        ...wish,
        organization,
        profile: await profileId(tables, organization, profile),
        place,
      });
    });
    return {
      json: { id, ...wish, profile, secret },
      text: `Event subscription ${id} made for "${org}", as ${profile}. What signs its events, shown this once:\n${secret}`,
    };
  });
