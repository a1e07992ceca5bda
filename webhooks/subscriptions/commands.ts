import type { Resource } from '../../engine/compile/index.ts';
import type { Database } from '../../engine/database/index.ts';
import { type AuditConfig, commandLine } from '../../engine/effects/index.ts';
import { type FieldIssue, UserError } from '../../engine/errors.ts';
import { isRowId, parseDocument } from '../../engine/fields/index.ts';
import {
  type CommandLine,
  type CommandResult,
  formatTable,
  inOrganization,
  jsonResult,
  type OrganizationContext,
  organizationOption,
} from '../../engine/modules/index.ts';
import { organizationCustomFields } from '../../engine/records/index.ts';
import { listRows, organizationId, tablesOf, transaction } from '../../engine/tables/index.ts';
import { profileGrants } from '../../plugins/access/identity/index.ts';
import { profileId } from '../../plugins/access/profiles/index.ts';
import { type InstanceSecrets, sealing } from '../../plugins/access/secrets/index.ts';
import { feedEnd } from '../../plugins/change-log/index.ts';
import { readSettings, type SettingsConfig } from '../settings/index.ts';
import { batchInput, checkSelection, readSubscriptionInput, type SubscriptionInput } from './input.ts';
import {
  changeSubscription,
  createSubscription,
  overlapHours,
  removeSubscription,
  replaySubscription,
  rotateSecret,
  sendTest,
  subscriptionRows,
} from './subscriptions.ts';

interface Instance {
  readonly config: AuditConfig & SettingsConfig;
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly secrets: InstanceSecrets;
}

type Line = CommandLine<Instance>;

/** Adds the `subscription` commands. */
export function subscriptionCommands(line: Line): void {
  const { program, run } = line;
  const subscription = program
    .command('subscription')
    .description('manage event subscriptions, which send changes to a URL');
  subscription
    .command('list')
    .description('list event subscriptions')
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((options) =>
      inOrganization(line, options, async ({ tables, organization }) => {
        const subscriptions = await listRows(tables, subscriptionRows, organization);
        const rows = subscriptions.map(({ id, url, resources, actions, profile, state }) => [
          ...[id, url, resources.join(','), actions.join(','), profile, state],
        ]);
        return {
          json: { subscriptions },
          text:
            subscriptions.length === 0
              ? `"${options.org}" has no event subscriptions.`
              : formatTable(['id', 'url', 'resources', 'actions', 'profile', 'state'], rows),
        };
      }),
    );
  subscription
    .command('create <url>')
    .description('send changes to a URL; the signing secret is printed only once')
    .addOption(organizationOption())
    .requiredOption('--resources <names...>', 'resources whose changes are sent')
    .option('--actions <actions...>', 'create, update, delete; default: all')
    .option('--filter <parameters>', 'only records that match these list parameters, for example status=New')
    .option(
      '--filter-when <mode>',
      'matches, or enters or leaves for changes that make a record match the filter or stop matching it; default: matches',
    )
    .option(
      '--transitions <json>',
      'only updates that change these fields, for example {"status":{"from":"New","to":"Qualified"}}',
    )
    .option('--format <format>', 'format of the request bodies: standard or cloudevents; default: standard')
    .option('--batch-events <count>', 'send up to this many events in one request; default: one per request')
    .option('--batch-wait <seconds>', 'how long events wait for others with --batch-events; default: 5')
    .requiredOption('--profile <name>', 'the profile that determines which fields events contain')
    .addOption(jsonResult())
    .action((url, { json, ...options }) => run(json, create(line, url, options)));
  for (const [name, [description, work]] of Object.entries(subcommands)) {
    subscription
      .command(`${name} <id>`)
      .description(description)
      .addOption(organizationOption())
      .addOption(jsonResult())
      .action((id, options) => onSubscription(line, id, options, work));
  }
  subscription
    .command('replay <id>')
    .description('send deliveries again, by ID')
    .addOption(organizationOption())
    .requiredOption('--from <delivery>', 'the first delivery; see "delivery list"')
    .option('--to <delivery>', 'the last delivery; default: only the first')
    .addOption(jsonResult())
    .action((id, { from, to = from, ...options }) =>
      onSubscription(line, id, options, async ({ tables, actor, organization }) => {
        for (const delivery of [from, to])
          if (!isRowId(delivery)) throw new UserError(`"${delivery}" is not a delivery ID`);
        const queued = await replaySubscription(tables, actor, organization, id, { from, to });
        return {
          json: { id, queued },
          text: `Queued ${queued} deliveries. The server will send them again.`,
        };
      }),
    );
}

/** Handler for a command on one subscription. */
type Work = (context: OrganizationContext<Instance>, id: string) => Promise<CommandResult>;

const setState =
  (state: 'on' | 'off'): Work =>
  async ({ tables, actor, organization }, id) => {
    await changeSubscription(tables, actor, organization, id, { state });
    return {
      json: { id, state },
      text: `Event subscription ${id} ${state === 'on' ? 'enabled' : 'disabled'}.`,
    };
  };

const subcommands: Readonly<Record<string, readonly [description: string, work: Work]>> = {
  on: ['enable an event subscription; it continues where it stopped', setState('on')],
  off: ['disable an event subscription; the change log keeps changes in the meantime', setState('off')],
  rotate: [
    'replace the signing secret; the new one is printed only once',
    async ({ tables, actor, organization, instance: { secrets } }, id) => {
      const secret = await rotateSecret(tables, actor, sealing(secrets), organization, id);
      return {
        json: { id, secret },
        text: `Events are also signed with the previous secret for ${overlapHours} hours. The new secret, shown only once:\n${secret}`,
      };
    },
  ],
  test: [
    'send a test event',
    async ({ tables, organization }, id) => {
      const delivery = await sendTest(tables, organization, id);
      return { json: { id, delivery }, text: `Delivery ${delivery} is queued. The server will send it.` };
    },
  ],
  delete: [
    'delete an event subscription and its deliveries',
    async ({ tables, actor, organization }, id) => {
      await removeSubscription(tables, actor, organization, id);
      return { json: { id, deleted: true }, text: `Event subscription ${id} deleted.` };
    },
  ],
};

const onSubscription = (
  line: Line,
  id: string,
  options: Parameters<typeof inOrganization>[1],
  work: Work,
): Promise<void> =>
  inOrganization(line, options, async (context) => {
    if (!isRowId(id))
      throw new UserError(`"${id}" is not an event subscription ID. List IDs with "crm subscription list".`);
    return work(context, id);
  });

const create = (
  { withInstance }: Line,
  url: string,
  {
    org,
    profile,
    filterWhen,
    transitions,
    batchEvents,
    batchWait,
    ...options
  }: { readonly org: string; readonly profile: string } & Readonly<Record<string, unknown>>,
): Promise<CommandResult> =>
  withInstance(async ({ config, database, resources, secrets }) => {
    if (!config.audit) throw new UserError('Events require the change log, which is disabled (AUDIT=false).');
    const issues: FieldIssue[] = [];
    const { events } = await readSettings(config);
    const input = readSubscriptionInput(
      {
        url,
        ...options,
        filter_when: filterWhen,
        batch: batchInput(batchEvents, batchWait),
        ...(transitions !== undefined && { transitions: parseDocument(String(transitions)) }),
      },
      true,
      resources,
      events,
      issues,
    ) as SubscriptionInput;
    const rejectInvalid = () => {
      if (issues.length > 0) throw new UserError(issues.map(({ message }) => message).join('\n'));
    };
    rejectInvalid();
    const { end: position } = await feedEnd(database);
    const organization = await organizationId(tablesOf(database), org);
    const customFields = await organizationCustomFields(database, resources, organization);
    const { id, secret } = await transaction(database, async (tables) => {
      const idOfProfile = await profileId(tables, organization, profile);
      const grants = await profileGrants(tables, organization, idOfProfile);
      checkSelection(input, resources, grants, customFields, issues);
      rejectInvalid();
      return createSubscription(tables, commandLine(config), sealing(secrets), {
        ...input,
        organization,
        profile: idOfProfile,
        position,
      });
    });
    return {
      json: { id, ...input, profile, secret },
      text: `Created event subscription ${id} for "${org}" with the profile "${profile}". Its signing secret, shown only once:\n${secret}`,
    };
  });
