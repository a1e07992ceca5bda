import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
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
  type Language,
  nameInput,
  type ObjectContext,
  type SecretNotice,
  type Text,
  type TextIn,
  TranslatedError,
} from '../../admin-ui/shell/index.ts';
import { type QuotaSettings, quotaLine, quotaOf } from '../../tenants/quotas/index.ts';
import { listMembers, personDetail, personLabel, personLine, personLines } from '../identity/index.ts';
import { assertProfileGrantable, chosenProfile, profileChoice } from '../profiles/index.ts';
import type { KeyConfig } from './authentication.ts';
import { expiryNoticeMs } from './check.ts';
import { accessInput, accessLine, keyAccessOf } from './key-access.ts';
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

const { later } = apiKeysTexts;

const dayMs = 86_400_000;
/** How long a key can be used. */
interface Lifetime {
  readonly label: TextIn;
  /** Milliseconds. Null if the key does not expire. */
  readonly ms: number | null;
}
const lifetimeOf = (days: number): [string, Lifetime] => [
  String(days),
  { label: later('inDays', { count: days }), ms: days * dayMs },
];
/** Lifetimes, keyed by form value. The first one is preselected. */
const lifetimes: ReadonlyMap<string, Lifetime> = new Map<string, Lifetime>([
  lifetimeOf(90),
  lifetimeOf(30),
  ['365', { label: later('inAYear'), ms: 365 * dayMs }],
  ['never', { label: later('never'), ms: null }],
]);
/** How long the old key stays valid after a rotation, keyed by form value. */
const overlaps: ReadonlyMap<string, { readonly label: TextIn; readonly ms: number }> = new Map([
  ['1h', { label: later('hour'), ms: dayMs / 24 }],
  ['1d', { label: later('day'), ms: dayMs }],
  ['7d', { label: later('sevenDays'), ms: 7 * dayMs }],
]);
/** Maximum number of expiring keys that the home page lists individually. */
const maxListed = 3;
const optionsOf = (
  choices: ReadonlyMap<string, { readonly label: TextIn }>,
  selectedValue: string,
  language: Language,
) =>
  [...choices].map(([value, { label }]) => ({
    value,
    label: label(language),
    selected: value === selectedValue,
  }));

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
  { app, request, language, services: { resources } }: ObjectContext<KeyServices>,
  { id, name, plaintext }: NewApiKey,
) => {
  const t = apiKeysTexts(language);
  const made: SecretNotice = {
    title: t('createdTitle', { name }),
    text: t('copyNow'),
    values: [{ id: 'plaintext', label: t('apiKey'), value: plaintext, copy: t('copyKey') }],
    command: `curl -H 'Authorization: Bearer ${plaintext}' ${app.site.origin(request)}${apiPrefix}/${resources[0]?.name ?? ''}`,
  };
  return { view: { made, marked: id } };
};

/** Returns whether an administrator can create keys that act on behalf of members. */
const canDelegate = ({ membership }: ObjectContext<KeyServices>): boolean =>
  allows(membership.grants, membersObject, 'update');

/** Returns the form input for selecting a member on whose behalf a key acts; none if the administrator may not. */
async function memberChoice(context: ObjectContext<KeyServices>, selectedId: string): Promise<Input<Text>[]> {
  if (!canDelegate(context)) return [];
  const t = apiKeysTexts(context.language);
  const members = await listMembers(context.tables, context.organization);
  return [
    {
      kind: 'choice',
      name: 'on_behalf_of',
      label: t('onBehalfOf'),
      help: t('onBehalfOfHelp'),
      options: [
        { value: '', label: t('nobody') },
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
  if (!canDelegate(context)) throw new TranslatedError(later('cannotDelegate'));
}

const isLive = (key: KeyInfo): boolean => keyState(key) === 'live';

/** API keys. A key's plaintext is shown only once. */
const apiKeys = defineObject<KeyInfo, KeyServices>({
  name: 'keys',
  title: later('apiKeys'),
  group: 'Access',
  icon: 'key-round',
  plural: later('rows'),
  source: keyRows,
  missing: missingKey,
  nameOf: ({ name }) => name,
  views: {
    live: { label: later('live'), where: keyStates.live },
    expired: { label: later('expired'), where: keyStates.expired },
    revoked: { label: later('revoked'), where: keyStates.revoked },
    all: { label: later('all') },
  },
  columns: [
    { title: later('name'), cell: ({ name }) => ({ text: name }), by: 'lower(k.name)' },
    { title: later('key'), cell: ({ last_four }) => ({ code: `…${last_four}` }) },
    {
      title: later('profile'),
      cell: ({ profile, access }, { language }) => ({ text: profile, ...accessLine(access, language) }),
      by: 'lower(p.name)',
    },
    {
      title: later('onBehalfOf'),
      cell: ({ on_behalf_of: email, on_behalf_of_name: name }) =>
        email === null ? { text: '' } : personLines({ name, email }),
      by: 'lower(coalesce(b.name, b.email))',
    },
    {
      title: later('created'),
      cell: ({ created_at, created_by: email, created_by_name: name }) => ({
        time: created_at,
        ...(email !== null && { below: personLabel({ name, email }), title: personDetail({ name, email }) }),
      }),
      by: 'k.created_at',
    },
    {
      title: later('lastUsed'),
      cell: ({ id, last_used_at }, { app, language }) => {
        const time = app.keyLastUsed(id) ?? last_used_at;
        return time === null ? { text: apiKeysTexts(language)('never') } : { time };
      },
      by: 'k.last_used_at',
    },
    { title: later('state'), cell: stateCell, by: 'k.expires_at' },
  ],
  empty: later('none'),
  actions: {
    create: {
      label: later('create'),
      isOnce: true,
      page: async (context, form) => {
        const t = apiKeysTexts(context.language);
        return {
          kind: 'form',
          title: t('createKey'),
          inputs: [
            nameInput(t('name'), field(form, 'name'), t('nameHelp')),
            await profileChoice(context, field(form, 'profile'), t('profileHelp')),
            accessInput(keyAccessOf(field(form, 'access')) ?? 'write', context.language),
            ...(await memberChoice(context, field(form, 'on_behalf_of'))),
            {
              kind: 'choice',
              name: 'expires',
              label: t('expires'),
              options: optionsOf(lifetimes, field(form, 'expires') || '90', context.language),
            },
          ],
          submit: t('create'),
        };
      },
      run: async (context, form) => {
        const { organization, person, actor, transact, services } = context;
        const lifetime = lifetimes.get(field(form, 'expires'));
        if (lifetime === undefined) throw new TranslatedError(later('chooseExpiry'));
        const access = keyAccessOf(field(form, 'access') || 'write');
        if (access === undefined) throw new TranslatedError(later('chooseAccess'));
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
            access,
            expiresAt: lifetime.ms === null ? null : new Date(Date.now() + lifetime.ms),
          });
        });
        return showOnce(context, key);
      },
    },
  },
  rowActions: {
    rotate: {
      label: later('rotate'),
      accessibleName: (name) => later('rotateKey', { name }),
      isOffered: isLive,
      isOnce: true,
      page: ({ language }, form, key) => {
        const t = apiKeysTexts(language);
        return {
          kind: 'confirm',
          title: t('rotateQuestion', { key: labelOf(key) }),
          consequence: t('rotateConsequence'),
          inputs: [
            {
              kind: 'choice',
              name: 'overlap',
              label: t('overlap'),
              options: optionsOf(overlaps, field(form, 'overlap') || '1d', language),
            },
          ],
          submit: t('rotateSubmit'),
          isSafe: true,
        };
      },
      run: async (context, form, { id, on_behalf_of_id, profile_id }) => {
        if (on_behalf_of_id !== null) assertCanDelegate(context);
        const { organization, actor, transact, services } = context;
        const overlap = overlaps.get(field(form, 'overlap'));
        if (overlap === undefined) throw new TranslatedError(later('chooseOverlap'));
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
      label: later('revoke'),
      accessibleName: (name) => later('revokeName', { name }),
      isOffered: isLive,
      page: ({ language }, _form, key) => {
        const t = apiKeysTexts(language);
        return {
          kind: 'confirm',
          title: t('revokeQuestion', { key: labelOf(key) }),
          consequence: t('revokeConsequence'),
          submit: t('revokeSubmit'),
        };
      },
      done: { 'key-revoked': later('keyRevoked') },
      run: ({ organization, actor, transact }, _form, { id }) =>
        transact((tables) => revokeKey(tables, actor, organization, id)),
    },
  },
});

/** Registers the pages for API keys, and the check that reports expiring keys. */
export function keyPages(app: FastifyInstance, services: KeyServices): void {
  const { database, settings } = services;
  addHomeStep(app, {
    label: later('createKey'),
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

function stateCell(key: KeyInfo, { language }: ObjectContext<KeyServices>): DisplayValue {
  const t = apiKeysTexts(language);
  const { expires_at, revoked_at } = key;
  const state = keyState(key);
  if (state === 'revoked') return { text: t('stateRevoked'), time: revoked_at, state: 'quiet' };
  if (state === 'expired') return { text: t('stateExpired'), time: expires_at, state: 'quiet' };
  if (expires_at === null) return { text: t('stateLive'), state: 'good' };
  return { text: t('stateLiveExpires'), time: expires_at, state: 'good' };
}
