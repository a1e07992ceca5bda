import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { apiPrefix } from '../../../engine/http/index.ts';
import { allows, membersObject } from '../../../engine/records/index.ts';
import { countRows, listRows, slugsOf, tablesOf } from '../../../engine/tables/index.ts';
import {
  addHomeCheck,
  addHomeStep,
  addObjects,
  type DisplayValue,
  defineObject,
  exactTime,
  field,
  type Input,
  idField,
  nameInput,
  type ObjectContext,
  type SecretNotice,
} from '../../admin-ui/shell/index.ts';
import { type QuotaSettings, quotaLine, quotaOf } from '../../tenants/quotas/index.ts';
import { listMembers, personDetail, personLabel, personLine, personLines } from '../identity/index.ts';
import { assertProfileGrantable, chosenProfile, profileChoice } from '../profiles/index.ts';
import type { KeyConfig } from './authentication.ts';
import { expiryNoticeMs } from './check.ts';
import {
  assertKeyQuota,
  createKey,
  type KeyInfo,
  keyRows,
  keyState,
  keyStates,
  missingKey,
  type NewApiKey,
  revokeKey,
  rotateKey,
} from './keys.ts';
import { apiKeysTexts } from './texts/index.ts';

const dayMs = 86_400_000;
/** Lifetimes, keyed by form value. The first one is preselected, and null means that the key does not expire. */
const lifetimes: ReadonlyMap<string, { readonly label: string; readonly ms: number | null }> = new Map([
  ['90', { label: 'in 90 days', ms: 90 * dayMs }],
  ['30', { label: 'in 30 days', ms: 30 * dayMs }],
  ['365', { label: 'in a year', ms: 365 * dayMs }],
  ['never', { label: 'never', ms: null }],
]);
/** How long the old key stays valid after a rotation, keyed by form value. */
const overlaps: ReadonlyMap<string, { readonly label: string; readonly ms: number }> = new Map([
  ['1h', { label: '1 hour', ms: dayMs / 24 }],
  ['1d', { label: '1 day', ms: dayMs }],
  ['7d', { label: '7 days', ms: 7 * dayMs }],
]);
/** Maximum number of expiring keys that the home page lists individually. */
const maxListed = 3;
const optionsOf = (choices: ReadonlyMap<string, { readonly label: string }>, selectedValue: string) =>
  [...choices].map(([value, { label }]) => ({ value, label, selected: value === selectedValue }));

interface KeyServices {
  readonly config: KeyConfig;
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly settings: { readonly current: { readonly quotas: QuotaSettings } };
}

/** Returns a label that distinguishes keys with the same name. */
const labelOf = ({ name, last_four }: KeyInfo): string => `${name} (…${last_four})`;

/** Shows a new key only once. */
const showOnce = (
  { app, request, services: { resources } }: ObjectContext<KeyServices>,
  { id, name, plaintext }: NewApiKey,
) => {
  const made: SecretNotice = {
    title: `${name} created`,
    text: 'Copy the key now. It will not be shown again.',
    values: [{ id: 'plaintext', label: 'API key', value: plaintext, copy: 'Copy key' }],
    command: `curl -H 'Authorization: Bearer ${plaintext}' ${app.site.origin(request)}${apiPrefix}/${resources[0]?.name ?? ''}`,
  };
  return { view: { made, marked: id } };
};

/** Returns whether an administrator can create keys that act on behalf of members. */
const canDelegate = ({ membership }: ObjectContext<KeyServices>): boolean =>
  allows(membership.grants, membersObject, 'update');

/** Returns the form input for selecting a member on whose behalf a key acts; none if the administrator may not. */
async function memberChoice(context: ObjectContext<KeyServices>, selectedId: string): Promise<Input[]> {
  if (!canDelegate(context)) return [];
  const members = await listMembers(context.tables, context.organization);
  return [
    {
      kind: 'choice',
      name: 'on_behalf_of',
      label: 'On behalf of',
      help: 'Optional. The key can do only what both its profile and this member’s profile permit, and ends with the membership.',
      options: [
        { value: '', label: 'Nobody' },
        ...members.map((member) => ({
          value: member.id,
          label: personLine(member),
          selected: member.id === selectedId,
        })),
      ],
    },
  ];
}

/** Checks that an administrator can create a key on behalf of a member. @throws UserError if not */
function assertCanDelegate(context: ObjectContext<KeyServices>): void {
  if (!canDelegate(context))
    throw new UserError('creating a key on behalf of a member requires the grant members:update');
}

const isLive = (key: KeyInfo): boolean => keyState(key) === 'live';

/** API keys. A key's plaintext is shown only once. */
const apiKeys = defineObject<KeyInfo, KeyServices>({
  name: 'keys',
  title: apiKeysTexts.later('apiKeys'),
  group: 'Access',
  icon: 'key-round',
  plural: 'keys',
  source: keyRows,
  missing: missingKey,
  nameOf: ({ name }) => name,
  views: {
    live: { label: 'Live', where: keyStates.live },
    expired: { label: 'Expired', where: keyStates.expired },
    revoked: { label: 'Revoked', where: keyStates.revoked },
    all: { label: 'All' },
  },
  columns: [
    { title: 'Name', cell: ({ name }) => ({ text: name }), by: 'lower(k.name)' },
    { title: 'Key', cell: ({ last_four }) => ({ code: `…${last_four}` }) },
    { title: 'Profile', cell: ({ profile }) => ({ text: profile }), by: 'lower(p.name)' },
    {
      title: 'On behalf of',
      cell: ({ on_behalf_of: email, on_behalf_of_name: name }) =>
        email === null ? { text: '' } : personLines({ name, email }),
      by: 'lower(coalesce(b.name, b.email))',
    },
    {
      title: 'Created',
      cell: ({ created_at, created_by: email, created_by_name: name }) => ({
        time: created_at,
        ...(email !== null && { below: personLabel({ name, email }), title: personDetail({ name, email }) }),
      }),
      by: 'k.created_at',
    },
    {
      title: 'Last used',
      cell: ({ id, last_used_at }, { app }) => {
        const time = app.keyLastUsed(id) ?? last_used_at;
        return time === null ? { text: 'never' } : { time };
      },
      by: 'k.last_used_at',
    },
    { title: 'State', cell: stateCell, by: 'k.expires_at' },
  ],
  empty: 'An API key lets a program read and write the records that its profile permits.',
  actions: {
    create: {
      label: 'Create key',
      isOnce: true,
      page: async (context, form) => ({
        kind: 'form',
        title: 'Create an API key',
        inputs: [
          nameInput(field(form, 'name'), 'The program that will use the key, for example “Website”.'),
          await profileChoice(context, field(form, 'profile'), 'Determines what the program can do.'),
          ...(await memberChoice(context, field(form, 'on_behalf_of'))),
          {
            kind: 'choice',
            name: 'expires',
            label: 'Expires',
            options: optionsOf(lifetimes, field(form, 'expires') || '90'),
          },
        ],
        submit: 'Create key',
      }),
      run: async (context, form) => {
        const { organization, person, actor, transact, services } = context;
        const lifetime = lifetimes.get(field(form, 'expires'));
        if (lifetime === undefined) throw new UserError('choose when the key expires');
        const onBehalfOf = field(form, 'on_behalf_of') === '' ? null : idField(form, 'on_behalf_of');
        if (onBehalfOf !== null) assertCanDelegate(context);
        const key = await transact(async (tables) => {
          const quota = quotaOf(services.settings.current.quotas, await slugsOf(tables, organization));
          await assertKeyQuota(tables, organization, quota.keys);
          return createKey(tables, actor, services.config.keyPrefix, {
            organization,
            profile: await chosenProfile(tables, context, form),
            name: field(form, 'name'),
            user: person.session.user.id,
            onBehalfOf,
            expiresAt: lifetime.ms === null ? null : new Date(Date.now() + lifetime.ms),
          });
        });
        return showOnce(context, key);
      },
    },
  },
  rowActions: {
    rotate: {
      label: 'Rotate',
      isOffered: isLive,
      isOnce: true,
      page: (_context, form, key) => ({
        kind: 'confirm',
        title: `Rotate ${labelOf(key)}?`,
        consequence:
          'A new key with the same name, profile and expiry is created. The old key stays valid for a while, so that programs can switch to the new key.',
        inputs: [
          {
            kind: 'choice',
            name: 'overlap',
            label: 'Keep the old key valid for',
            options: optionsOf(overlaps, field(form, 'overlap') || '1d'),
          },
        ],
        submit: 'Rotate key',
        isSafe: true,
      }),
      run: async (context, form, { id, on_behalf_of_id, profile_id }) => {
        if (on_behalf_of_id !== null) assertCanDelegate(context);
        const { organization, actor, transact, services } = context;
        const overlap = overlaps.get(field(form, 'overlap'));
        if (overlap === undefined) throw new UserError('choose how long the old key stays valid');
        const key = await transact(async (tables) => {
          await assertProfileGrantable(tables, context, profile_id);
          return rotateKey(tables, actor, services.config.keyPrefix, {
            organization,
            id,
            overlapMs: overlap.ms,
          });
        });
        return showOnce(context, key);
      },
    },
    revoke: {
      label: 'Revoke',
      isOffered: isLive,
      page: (_context, _form, key) => ({
        kind: 'confirm',
        title: `Revoke ${labelOf(key)}?`,
        consequence: 'Programs using it get 401 immediately. Revoking a key cannot be undone.',
        submit: 'Revoke key',
      }),
      done: { 'key-revoked': '{} revoked. Every node rejects it within a second.' },
      run: ({ organization, actor, transact }, _form, { id }) =>
        transact((tables) => revokeKey(tables, actor, organization, id)),
    },
  },
});

/** Registers the pages for API keys, and the check that reports expiring keys. */
export function keyPages(app: FastifyInstance, services: KeyServices): void {
  const { database, settings } = services;
  addHomeStep(app, {
    label: apiKeysTexts.later('createKey'),
    path: 'keys/create',
    isDone: async ({ membership: { organization } }) =>
      (await countRows(tablesOf(database), keyRows, organization)) > 0,
  });
  addHomeCheck(app, async ({ membership: { organization, slug, formerSlugs } }, language) => {
    const t = apiKeysTexts(language);
    const tables = tablesOf(database);
    const live = sql.raw(keyStates.live);
    const noticeTime = new Date(Date.now() + expiryNoticeMs);
    const where = [live, sql`k.expires_at < ${noticeTime}::timestamptz`];
    const [liveCount, expiringCount, expiringKeys] = await Promise.all([
      countRows(tables, keyRows, organization, { where: [live] }),
      countRows(tables, keyRows, organization, { where }),
      listRows(tables, keyRows, organization, { where, limit: maxListed }),
    ]);
    const quota = quotaOf(settings.current.quotas, [slug, ...formerSlugs]);
    const usage = quotaLine(t('apiKeys'), { used: liveCount, quota: quota.keys }, language);
    const listUrl = `/setup/o/${slug}/keys?sort=State`;
    if (expiringCount > maxListed)
      return [
        ...usage,
        {
          state: 'warn' as const,
          text: t('keysExpire', { count: expiringCount }),
          link: { label: t('showKeys'), href: listUrl },
        },
      ];
    const lines = expiringKeys.map((key) => ({
      state: 'warn' as const,
      text: t('keyExpires', { key: labelOf(key), time: exactTime(key.expires_at ?? new Date(0)) }),
      link: {
        label: t('rotate'),
        name: t('rotateKey', { name: key.name }),
        href: `/setup/o/${slug}/keys/rotate?id=${key.id}`,
      },
    }));
    return [...usage, ...lines];
  });
  addObjects(app, services, [apiKeys]);
}

function stateCell(key: KeyInfo): DisplayValue {
  const { expires_at, revoked_at } = key;
  const state = keyState(key);
  if (state === 'revoked') return { text: 'revoked', time: revoked_at, state: 'quiet' };
  if (state === 'expired') return { text: 'expired', time: expires_at, state: 'quiet' };
  if (expires_at === null) return { text: 'live', state: 'good' };
  return { text: 'live, expires', time: expires_at, state: 'good' };
}
