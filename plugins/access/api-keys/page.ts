import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { apiPrefix } from '../../../engine/http/index.ts';
import { slugsOf, type Tables, tablesOf } from '../../../engine/tables/index.ts';
import {
  addHomeCheck,
  type DisplayValue,
  exactTime,
  type Form,
  field,
  idField,
  listing,
  nameInput,
  type SecretNotice,
  section,
} from '../../admin-ui/shell/index.ts';
import { type QuotaSettings, quotaLine, quotaOf } from '../../tenants/quotas/index.ts';
import { chosenProfile, listProfiles, profileChoice } from '../profiles/index.ts';
import type { KeyConfig } from './authentication.ts';
import { expiryNoticeMs } from './check.ts';
import { assertKeyQuota, createKey, type KeyInfo, listKeys, revokeKey, rotateKey } from './keys.ts';

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

type KeyRow = KeyInfo & { readonly state: 'live' | 'expired' | 'revoked' };

/** Returns a label that distinguishes keys with the same name. */
const labelOf = ({ name, last_four }: KeyInfo): string => `${name} (…${last_four})`;

/** Registers the pages to list, create, rotate and revoke API keys. A key's plaintext is shown once. */
export function keyPages(
  app: FastifyInstance,
  {
    config,
    database,
    resources,
    settings,
  }: {
    readonly config: KeyConfig;
    readonly database: Database;
    readonly resources: readonly Resource[];
    readonly settings: { readonly current: { readonly quotas: QuotaSettings } };
  },
): void {
  const keysOf = async (tables: Tables, organization: string): Promise<KeyRow[]> => {
    const now = new Date().toISOString();
    const state = ({ revoked_at, expires_at }: KeyInfo) =>
      revoked_at !== null ? 'revoked' : expires_at !== null && expires_at <= now ? 'expired' : 'live';
    return (await listKeys(tables, organization)).reverse().map((key) => ({
      ...key,
      state: state(key),
      last_used_at: app.keyLastUsed(key.id) ?? key.last_used_at,
    }));
  };
  const liveKey = async (organization: string, form: Form): Promise<KeyRow> => {
    const id = idField(form, 'id');
    const key = (await keysOf(tablesOf(database), organization)).find((row) => row.id === id);
    if (key?.state !== 'live') throw new UserError('this key does not exist or is not live');
    return key;
  };
  const showOnce = (request: FastifyRequest, name: string, plaintext: string): SecretNotice => ({
    title: `${name} created`,
    text: 'Copy the key now. It will not be shown again.',
    values: [{ id: 'plaintext', label: 'API key', value: plaintext, copy: 'Copy key' }],
    command: `curl -H 'Authorization: Bearer ${plaintext}' ${app.site.origin(request)}${apiPrefix}/${resources[0]?.name ?? ''}`,
  });

  addHomeCheck(app, async ({ membership: { organization, slug, formerSlugs } }) => {
    const noticeTime = new Date(Date.now() + expiryNoticeMs).toISOString();
    const liveKeys = (await keysOf(tablesOf(database), organization)).filter(({ state }) => state === 'live');
    const expiringKeys = liveKeys.filter(({ expires_at }) => expires_at !== null && expires_at < noticeTime);
    const quota = quotaOf(settings.current.quotas, [slug, ...formerSlugs]);
    const usage = quotaLine('API keys', liveKeys.length, quota.keys);
    const listUrl = `/setup/o/${slug}/keys?sort=State`;
    if (expiringKeys.length > maxListed)
      return [
        ...usage,
        {
          state: 'warn' as const,
          text: `${expiringKeys.length} API keys expire within two weeks.`,
          link: { label: 'Show keys', href: listUrl },
        },
      ];
    const lines = expiringKeys.map((key) => ({
      state: 'warn' as const,
      text: `The API key ${labelOf(key)} expires ${exactTime(new Date(key.expires_at ?? 0))}.`,
      link: {
        label: 'Rotate',
        name: `Rotate ${key.name}`,
        href: `/setup/o/${slug}/keys/rotate?id=${key.id}`,
      },
    }));
    return [...usage, ...lines];
  });

  section(app, database, {
    name: 'keys',
    title: 'API keys',
    done: { 'key-revoked': '{} revoked. Every node rejects it within a second.' },
    load: async ({ membership: { organization, slug } }, request) => {
      const keys = await keysOf(tablesOf(database), organization);
      const create = { label: 'Create key', href: `/setup/o/${slug}/keys/create` };
      const inState = (label: string, state: KeyRow['state']) => ({
        label,
        has: (key: KeyRow) => key.state === state,
      });
      return {
        primary: create,
        ...listing(request, keys, {
          searchLabel: 'Search keys',
          text: ({ name, profile, last_four, created_by }) => `${name} ${profile} ${last_four} ${created_by}`,
          views: {
            live: inState('Live', 'live'),
            expired: inState('Expired', 'expired'),
            revoked: inState('Revoked', 'revoked'),
            all: { label: 'All', has: () => true },
          },
          columns: [
            { title: 'Name', cell: ({ name }) => ({ text: name }), by: ({ name }) => name },
            { title: 'Key', cell: ({ last_four }) => ({ code: `…${last_four}` }) },
            { title: 'Profile', cell: ({ profile }) => ({ text: profile }), by: ({ profile }) => profile },
            {
              title: 'Created',
              cell: ({ created_at, created_by }) => ({ time: created_at, below: created_by }),
              by: ({ created_at }) => created_at,
            },
            {
              title: 'Last used',
              cell: ({ last_used_at }) =>
                last_used_at === null ? { text: 'never' } : { time: last_used_at },
              by: ({ last_used_at }) => last_used_at,
            },
            { title: 'State', cell: stateCell, by: ({ expires_at }) => expires_at },
          ],
          row: ({ id, state, ...key }) => ({
            id,
            links:
              state === 'live'
                ? ['Rotate', 'Revoke'].map((label) => ({
                    label,
                    name: `${label} ${key.name}`,
                    href: `/setup/o/${slug}/keys/${label.toLowerCase()}?id=${id}`,
                  }))
                : [],
          }),
          empty: {
            text: 'An API key lets a program read and write records, as its profile permits.',
            link: create,
          },
        }),
      };
    },
    pages: {
      create: async ({ membership: { organization, slug } }, { form, back }) => {
        const profiles = await listProfiles(tablesOf(database), organization);
        return {
          kind: 'form',
          title: 'Create an API key',
          action: `/setup/o/${slug}/keys/create`,
          inputs: [
            nameInput(field(form, 'name'), 'The program that uses the key, for example Website.'),
            profileChoice(profiles, field(form, 'profile'), 'What the program is allowed to do.'),
            {
              kind: 'choice',
              name: 'expires',
              label: 'Expires',
              options: optionsOf(lifetimes, field(form, 'expires') || '90'),
            },
          ],
          submit: 'Create key',
          cancel: back,
        };
      },
      rotate: async ({ membership: { organization, slug } }, { form, back }) => {
        const key = await liveKey(organization, form);
        return {
          kind: 'confirm',
          title: `Rotate ${labelOf(key)}?`,
          consequence: `A new key with the same name, profile and expiry is created. The old key stays valid for a while, so that programs can switch.`,
          action: `/setup/o/${slug}/keys/rotate`,
          hidden: [{ name: 'id', value: key.id }],
          inputs: [
            {
              kind: 'choice',
              name: 'overlap',
              label: 'Keep the old key valid for',
              options: optionsOf(overlaps, field(form, 'overlap') || '1d'),
            },
          ],
          submit: 'Rotate key',
          cancel: back,
          isSafe: true,
        };
      },
      revoke: async ({ membership: { organization, slug } }, { form, back }) => {
        const key = await liveKey(organization, form);
        return {
          kind: 'confirm',
          title: `Revoke ${labelOf(key)}?`,
          consequence: 'Programs using it get 401 immediately. Revoking a key cannot be undone.',
          action: `/setup/o/${slug}/keys/revoke`,
          hidden: [{ name: 'id', value: key.id }],
          submit: 'Revoke key',
          cancel: back,
        };
      },
    },
    once: ['create', 'rotate'],
    actions: {
      create: async ({ membership: { organization }, person, actor, transact }, form, request) => {
        const lifetime = lifetimes.get(field(form, 'expires'));
        if (lifetime === undefined) throw new UserError('choose when the key expires');
        const name = field(form, 'name');
        const key = await transact(async (tables) => {
          const quota = quotaOf(settings.current.quotas, await slugsOf(tables, organization));
          await assertKeyQuota(tables, organization, quota.keys);
          return createKey(tables, actor, config.keyPrefix, {
            organization,
            profile: await chosenProfile(tables, organization, form),
            name,
            user: person.session.user.id,
            expiresAt: lifetime.ms === null ? null : new Date(Date.now() + lifetime.ms),
          });
        });
        return { view: { made: showOnce(request, name, key.plaintext), marked: key.id } };
      },
      rotate: async ({ membership: { organization }, actor, transact }, form, request) => {
        const id = idField(form, 'id');
        const overlap = overlaps.get(field(form, 'overlap'));
        if (overlap === undefined) throw new UserError('choose how long the old key stays valid');
        const key = await transact((tables) =>
          rotateKey(tables, actor, config.keyPrefix, { organization, id, overlapMs: overlap.ms }),
        );
        return { view: { made: showOnce(request, key.name, key.plaintext), marked: key.id } };
      },
      revoke: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        const name = await transact(async (tables) => {
          await revokeKey(tables, actor, organization, id);
          return (await listKeys(tables, organization)).find((key) => key.id === id)?.name;
        });
        return { done: 'key-revoked', ...(name !== undefined && { name }) };
      },
    },
  });
}

function stateCell({ state, expires_at, revoked_at }: KeyRow): DisplayValue {
  if (state === 'revoked') return { text: 'revoked', time: revoked_at, state: 'quiet' };
  if (state === 'expired') return { text: 'expired', time: expires_at, state: 'quiet' };
  if (expires_at === null) return { text: 'live', state: 'good' };
  return { text: 'live, expires', time: expires_at, state: 'good' };
}
