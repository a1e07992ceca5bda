import { sql } from 'kysely';
import type { ResourceView } from '../../../engine/compile/index.ts';
import { capitalize } from '../../../engine/errors.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import { resourceNoun, resourceWords, titlesOf } from '../records/index.ts';
import type { DisplayValue, Language, Text, TextIn } from '../shell/index.ts';
import type { ActivityLine } from './activity-lines.ts';
import { activityTexts } from './texts/index.ts';

const { later } = activityTexts;

/** Returns a sentence about an object. */
type Sentence = (t: ReturnType<typeof activityTexts>, subject: string) => Text;

/** Nouns for objects other than records. */
const nouns: Readonly<Record<string, TextIn>> = {
  key: later('apiKey'),
  invite: later('invitation'),
  'event subscription': later('subscription'),
  'event delivery': later('delivery'),
  profile: later('profile'),
  team: later('team'),
  member: later('member'),
  integration: later('integration'),
  'inbox item': later('inboxItem'),
  note: later('note'),
  'saved view': later('savedView'),
  session: later('session'),
  organization: later('organization'),
  person: later('person'),
  'custom field': later('customField'),
  job: later('job'),
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
  'event delivery': 'events?show=event-deliveries',
  job: 'jobs',
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

/** Sentences about actions on any object. */
const participles: Readonly<Record<string, Sentence>> = {
  create: (t, subject) => t('created', { subject }),
  update: (t, subject) => t('updated', { subject }),
  delete: (t, subject) => t('deleted', { subject }),
  trash: (t, subject) => t('trashed', { subject }),
  restore: (t, subject) => t('restored', { subject }),
  purge: (t, subject) => t('purged', { subject }),
  export: (t, subject) => t('exported', { subject }),
  revoke: (t, subject) => t('revoked', { subject }),
  rotate: (t, subject) => t('rotated', { subject }),
  replay: (t, subject) => t('replayed', { subject }),
  enable: (t, subject) => t('enabled', { subject }),
  disable: (t, subject) => t('disabled', { subject }),
  'switch on': (t, subject) => t('enabled', { subject }),
  'switch off': (t, subject) => t('disabled', { subject }),
};

/** Actions, as suggested for the filter. */
export const activityActions: readonly string[] = Object.keys(participles);

/** Sentences that do not follow the pattern, by object and action. */
const sentences: Readonly<Record<string, Sentence>> = {
  'app create': (t, subject) => t('appConnected', { subject }),
  'app revoke': (t, subject) => t('appDisconnected', { subject }),
  'job cancel': (t, subject) => t('jobCanceled', { subject }),
  'session login': (t) => t('loggedIn'),
  'session logout': (t) => t('loggedOut'),
  'session logout everywhere': (t) => t('loggedOutEverywhere'),
  'session change name': (t) => t('nameChanged'),
  'session change password': (t) => t('passwordChanged'),
  'session link provider': (t) => t('providerLinked'),
  'session set up authenticator app': (t) => t('appSetUp'),
  'session remove authenticator app': (t) => t('appRemoved'),
  'session add passkey': (t) => t('passkeyAdded'),
  'session remove passkey': (t) => t('passkeyRemoved'),
  'session create recovery codes': (t) => t('codesCreated'),
  'member create': (t, subject) => t('memberAdded', { subject }),
  'member delete': (t, subject) => t('memberRemoved', { subject }),
  'member rename': (t, subject) => t('nameChangedFor', { subject }),
  'member create reset link': (t, subject) => t('resetLinkCreated', { subject }),
  'member reset password': (t, subject) => t('passwordReset', { subject }),
  'member reset second factor': (t, subject) => t('secondFactorReset', { subject }),
  'member unlink provider': (t, subject) => t('providerUnlinked', { subject }),
  'member verify': (t, subject) => t('emailVerified', { subject }),
  'member join team': (t, subject) => t('joinedTeam', { subject }),
  'member leave team': (t, subject) => t('leftTeam', { subject }),
  'team add member': (t, subject) => t('addedToTeam', { subject }),
  'team remove member': (t, subject) => t('removedFromTeam', { subject }),
  'profile view as': (t, subject) => t('viewedAs', { subject }),
  'invite delete': (t, subject) => t('invitationCanceled', { subject }),
  'integration change secrets': (t, subject) => t('secretsChanged', { subject }),
  'event subscription rotate': (t, subject) => t('secretRotated', { subject }),
  'event delivery replay all': (t) => t('deliveriesReplayed'),
  'inbox item replay all': (t) => t('inboxReplayed'),
  'organization create': (t) => t('organizationCreated'),
  'organization update': (t) => t('organizationUpdated'),
  'organization export': (t) => t('organizationExported'),
  'person forget': (t) => t('personErased'),
};

/**
 * Returns a sentence that describes a change log entry.
 * @param options `singular` and `plural` are the resource's nouns, which are absent if the object is not a record. `name` is
 * the object's name, which replaces its ID.
 */
export function sentenceOf(
  { action, object, objectId }: Pick<ActivityLine, 'action' | 'object' | 'objectId'>,
  {
    singular,
    plural,
    name,
    language,
  }: {
    readonly singular?: string | undefined;
    readonly plural?: string | undefined;
    readonly name?: string | undefined;
    readonly language: Language;
  },
): string {
  const words = object.replaceAll('_', ' ');
  const t = activityTexts(language);
  const ownNoun = Object.hasOwn(nouns, object) ? nouns[object]?.(language) : undefined;
  const noun = singular ?? ownNoun ?? words;
  const id = name === undefined ? objectId : t('quoted', { name });
  // An entry without an ID is about all records, for example an export.
  const subject = id === null ? (plural ?? words) : `${noun} ${id}`;
  const key = `${object} ${action}`;
  if (singular === undefined && Object.hasOwn(sentences, key))
    return capitalize(sentences[key]?.(t, subject) ?? '');
  const sentence = Object.hasOwn(participles, action) ? participles[action]?.(t, subject) : undefined;
  return capitalize(sentence ?? `${subject}: ${action}`);
}

/** The organization whose activity is shown. */
interface ActivityScope {
  readonly organization: string;
  /** The resources, as the administrator sees them. */
  readonly resources: readonly ResourceView[];
  /** URL of the organization's home page. */
  readonly base: string;
  readonly language: Language;
}

/** Returns a sentence for each of these entries in an organization's change log, linked to the entry's object. */
export async function activitySentences(
  tables: Tables,
  lines: readonly ActivityLine[],
  { organization, resources, base, language }: ActivityScope,
): Promise<DisplayValue[]> {
  const byName = new Map(resources.map((resource) => [resource.name, resource]));
  const names = new Map([
    ...(await namesOf(tables, organization, lines)),
    ...(await recordTitles(tables, organization, lines, resources)),
  ]);
  return lines.map((line) => {
    const { object, objectId } = line;
    const resource = byName.get(object);
    const text = sentenceOf(line, {
      language,
      singular: resource && resourceNoun(resource, language),
      plural: resource && resourceWords(resource, language),
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
