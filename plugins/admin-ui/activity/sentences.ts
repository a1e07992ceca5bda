import type { Resource } from '../../../engine/compile/index.ts';
import { capitalize } from '../../../engine/errors.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import type { ActivityLine } from './activity.ts';

/** Names for objects other than records, if they differ from the names in the change log. */
const nouns: Readonly<Record<string, string>> = {
  key: 'API key',
  invite: 'invitation',
  'event subscription': 'subscription',
  'event delivery': 'delivery',
};

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

/** Sentences that do not follow the pattern, by object and action. `…` stands for the object. */
const sentences: Readonly<Record<string, string>> = {
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
  const noun = singular ?? (Object.hasOwn(nouns, object) ? String(nouns[object]) : object);
  const id = name === undefined ? objectId : `“${name}”`;
  // An entry without an ID is about all records, for example an export.
  const subject = (id === null ? object : `${noun} ${id}`).replaceAll('_', ' ');
  const key = `${object} ${action}`;
  if (singular === undefined && Object.hasOwn(sentences, key))
    return capitalize(String(sentences[key]).replace('…', () => subject));
  const participle = Object.hasOwn(participles, action) ? ` ${participles[action]}` : `: ${action}`;
  return capitalize(subject + participle);
}

/** Returns a sentence for each of these entries in an organization's change log. */
export async function activitySentences(
  tables: Tables,
  organization: string,
  resources: readonly Resource[],
  lines: readonly ActivityLine[],
): Promise<string[]> {
  const singulars = new Map(resources.map(({ name, definition }) => [name, definition.singular]));
  const names = await namesOf(tables, organization, lines);
  return lines.map((line) =>
    sentenceOf(line, {
      singular: singulars.get(line.object),
      name: names.get(`${line.object} ${line.objectId}`),
    }),
  );
}

/** Returns the names of the keys, profiles and members in the entries, by object and ID. */
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
    ['profile', 'crm_profiles'],
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
