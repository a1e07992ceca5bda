import { sql } from 'kysely';
import type { ResourceView } from '../../../engine/compile/index.ts';
import { recordLabel } from '../../../engine/definition/index.ts';
import { capitalize } from '../../../engine/errors.ts';
import { inSentence } from '../../../engine/fields/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import { titlesOf } from '../records/index.ts';
import type { DisplayValue } from '../shell/index.ts';
import type { ActivityLine } from './activity.ts';

/** Names for objects other than records, if they differ from the names in the change log. */
const nouns: Readonly<Record<string, string>> = {
  key: 'API key',
  invite: 'invitation',
  'event subscription': 'subscription',
  'event delivery': 'delivery',
};

/** Sections that list objects other than records. */
const sections: Readonly<Record<string, string>> = {
  key: 'keys',
  app: 'apps',
  profile: 'profiles',
  team: 'teams',
  member: 'members',
  invite: 'members?show=invitations',
  integration: 'integrations',
  'inbox item': 'deliveries',
  'event subscription': 'events',
  'event delivery': 'event-deliveries',
};

/** Objects other than records, as suggested for the filter. */
export const activityObjects: readonly string[] = [
  ...Object.keys(sections),
  'note',
  'saved view',
  'session',
  'organization',
  'person',
];

/** Past participles of actions, as used after an object. */
const participles: Readonly<Record<string, string>> = {
  create: 'created',
  update: 'updated',
  delete: 'deleted',
  export: 'exported',
  revoke: 'revoked',
  rotate: 'rotated',
  replay: 'replayed',
  enable: 'enabled',
  disable: 'disabled',
  'switch on': 'enabled',
  'switch off': 'disabled',
};

/** Actions, as suggested for the filter. */
export const activityActions: readonly string[] = Object.keys(participles);

/** Sentences that do not follow the pattern, by object and action. `…` stands for the object. */
const sentences: Readonly<Record<string, string>> = {
  'app create': '… connected',
  'app revoke': '… disconnected',
  'custom field restore': '… restored',
  'session login': 'Logged in',
  'session logout': 'Logged out',
  'session logout everywhere': 'Logged out everywhere',
  'session change name': 'Name changed',
  'session change password': 'Password changed',
  'session link provider': 'Login provider linked',
  'session set up authenticator app': 'Authenticator app set up',
  'session remove authenticator app': 'Authenticator app removed',
  'session add passkey': 'Passkey added',
  'session remove passkey': 'Passkey removed',
  'session create recovery codes': 'Recovery codes created',
  'member create': '… added',
  'member delete': '… removed',
  'member rename': 'Name changed for …',
  'member create reset link': 'Password reset link created for …',
  'member reset password': 'Password reset for …',
  'member reset second factor': 'Second factor reset for …',
  'member unlink provider': 'Login provider unlinked for …',
  'member verify': 'Email address verified for …',
  'member join team': '… added to a team',
  'member leave team': '… removed from a team',
  'team add member': 'Member added to …',
  'team remove member': 'Member removed from …',
  'profile view as': 'Records viewed as …',
  'invite delete': '… canceled',
  'integration change secrets': 'Secrets changed for …',
  'event subscription rotate': 'Secret rotated for …',
  'event delivery replay all': 'All failed deliveries replayed',
  'inbox item replay all': 'All failed inbox items replayed',
  'organization create': 'Organization created',
  'organization update': 'Organization updated',
  'organization export': 'Organization exported',
  'person forget': 'Person erased',
};

/**
 * Returns a sentence that describes a change log entry.
 * @param singular the resource's singular noun. Absent if the object is not a record
 * @param name the object's name, which replaces its ID
 */
export function sentenceOf(
  { action, object, objectId }: Pick<ActivityLine, 'action' | 'object' | 'objectId'>,
  { singular, name }: { readonly singular?: string | undefined; readonly name?: string | undefined } = {},
): string {
  const words = object.replaceAll('_', ' ');
  const noun = singular ?? (Object.hasOwn(nouns, object) ? String(nouns[object]) : words);
  const id = name === undefined ? objectId : `“${name}”`;
  // An entry without an ID is about all records, for example an export.
  const subject = id === null ? words : `${noun} ${id}`;
  const key = `${object} ${action}`;
  if (singular === undefined && Object.hasOwn(sentences, key))
    return capitalize(String(sentences[key]).replace('…', () => subject));
  const participle = Object.hasOwn(participles, action) ? ` ${participles[action]}` : `: ${action}`;
  return capitalize(subject + participle);
}

/** Returns the noun for one of a resource's records. */
const nounOf = (resource: ResourceView | undefined): string | undefined =>
  resource && inSentence(recordLabel(resource.definition));

/** The organization whose activity is shown. */
interface ActivityScope {
  readonly organization: string;
  /** The resources, as the administrator sees them. */
  readonly resources: readonly ResourceView[];
  /** URL of the organization's home page. */
  readonly base: string;
}

/** Returns a sentence for each of these entries in an organization's change log, linked to the entry's object. */
export async function activitySentences(
  tables: Tables,
  lines: readonly ActivityLine[],
  { organization, resources, base }: ActivityScope,
): Promise<DisplayValue[]> {
  const byName = new Map(resources.map((resource) => [resource.name, resource]));
  const names = new Map([
    ...(await namesOf(tables, organization, lines)),
    ...(await recordTitles(tables, organization, lines, resources)),
  ]);
  return lines.map((line) => {
    const { object, objectId } = line;
    const text = sentenceOf(line, {
      singular: nounOf(byName.get(object)),
      name: names.get(`${object} ${objectId}`),
    });
    if (byName.has(object))
      return { text, href: `${base}/data/${object}${objectId === null ? '' : `/${objectId}`}` };
    const section = Object.hasOwn(sections, object) ? sections[object] : undefined;
    return section === undefined ? { text } : { text, href: `${base}/${section}` };
  });
}

/** Maximum number of characters read per title field. */
const titleLength = 201;

/**
 * Returns the titles of the records in the entries, by resource and ID, as last stored in the change log. It also
 * contains deleted records. Records without a name are omitted.
 */
async function recordTitles(
  tables: Tables,
  organization: string,
  lines: readonly ActivityLine[],
  resources: readonly ResourceView[],
): Promise<ReadonlyMap<string, string>> {
  const titles = titlesOf(resources);
  const found = resources.map(async (resource) => {
    const names = titles.fields(resource).map(({ name }) => name);
    const ids = [
      ...new Set(
        lines.flatMap(({ object, objectId }) =>
          object === resource.name && objectId !== null ? [objectId] : [],
        ),
      ),
    ];
    if (ids.length === 0 || names.length === 0) return [];
    const { rows } = await sql<{ id: string; record: string }>`
      select _i.id::text as id, _l.record from unnest(${ids}::text[]::bigint[]) _i(id) cross join lateral (
        select (select jsonb_object_agg(_n.name, left(coalesce(l.record, l.before)::jsonb ->> _n.name, ${titleLength}::int))
          from unnest(${names}::text[]) _n(name))::text as record
        from crm_ledger l
        where l.organization_id = ${organization}::bigint and l.object = ${resource.name} and l.object_id = _i.id
          and (l.record is not null or l.before is not null)
        order by l.version desc limit 1) _l`.execute(tables);
    return rows.flatMap(({ id, record }): [string, string][] => {
      const values = JSON.parse(record) as Readonly<Record<string, string | null>>;
      const isNamed = names.some((name) => (values[name] ?? '').trim() !== '');
      return isNamed ? [[`${resource.name} ${id}`, titles.of(resource, { ...values, id })]] : [];
    });
  });
  return new Map((await Promise.all(found)).flat());
}

/** Returns the names of the keys, profiles, teams and members in the entries, by object and ID. */
async function namesOf(
  tables: Tables,
  organization: string,
  lines: readonly ActivityLine[],
): Promise<ReadonlyMap<string, string>> {
  const names = new Map<string, string>();
  const addNames = async (
    object: string,
    find: (ids: readonly string[]) => Promise<readonly { id: string; name: string }[]>,
  ) => {
    const ids = lines.flatMap((line) => (line.object === object ? [line.objectId ?? []].flat() : []));
    if (ids.length === 0) return;
    for (const { id, name } of await find([...new Set(ids)])) names.set(`${object} ${id}`, name);
  };
  for (const [object, table] of [
    ['key', 'crm_api_keys'],
    ['app', 'crm_api_keys'],
    ['profile', 'crm_profiles'],
    ['team', 'crm_teams'],
  ] as const) {
    await addNames(object, (ids) =>
      tables
        .selectFrom(table)
        .select(['id', 'name'])
        .where('organization_id', '=', organization)
        .where('id', 'in', ids)
        .execute(),
    );
  }
  await addNames('member', (ids) =>
    tables
      .selectFrom('crm_memberships as m')
      .innerJoin('crm_users as u', 'u.id', 'm.user_id')
      .select(({ fn }) => ['u.id', fn.coalesce('u.name', 'u.email').as('name')])
      .where('m.organization_id', '=', organization)
      .where('m.user_id', 'in', ids)
      .execute(),
  );
  return names;
}
