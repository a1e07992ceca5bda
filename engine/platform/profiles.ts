import { type Action, actionNames, everything } from '../compile/index.ts';
import { UserError } from '../errors.ts';
import { type Platform, plain } from './handle.ts';

/** Profiles that every organization has from the start. */
export const builtInProfiles: Readonly<Record<string, readonly Grant[]>> = {
  administrator: [{ object: everything, actions: [everything] }],
  'read-only': [{ object: everything, actions: ['list', 'read'] }],
};

/** Actions granted on an object; `*` stands for all, also those that come later. */
export interface Grant {
  readonly object: string;
  readonly actions: readonly (Action | typeof everything)[];
}

/**
 * Makes a profile.
 * @returns its id
 * @throws UserError when the organization has a profile of that name
 */
export async function createProfile(
  tables: Platform,
  organization_id: string,
  name: string,
  grants: readonly Grant[],
): Promise<string> {
  const row = await tables
    .insertInto('crm_profiles')
    .values({ organization_id, name: plain(name, 'the name') })
    .onConflict((conflict) => conflict.columns(['organization_id', 'name']).doNothing())
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw new UserError(`the profile "${name}" exists already`);
  const profile_id = String(row.id);
  const rows = grants.flatMap(({ object, actions }) =>
    [...new Set(actions)].map((action) => ({ organization_id, profile_id, object, action })),
  );
  if (rows.length > 0) {
    await tables
      .insertInto('crm_grants')
      .values(rows)
      .onConflict((conflict) => conflict.doNothing())
      .execute();
  }
  return profile_id;
}

/**
 * Reads a grant as written on a command line: `leads:list,read`, `leads:*` or `*:*`.
 * @throws UserError naming the unknown object or action
 */
export function parseGrant(text: string, objects: readonly string[]): Grant {
  const [object = '', list = '', ...rest] = text.split(':');
  const actions = list.split(',');
  if (rest.length > 0 || list === '') {
    throw new UserError(`"${text}" is no grant: write object:action,action, such as leads:list,read`);
  }
  if (object !== everything && !objects.includes(object)) {
    throw new UserError(`there is no object "${object}"; there are ${objects.join(', ')} and ${everything}`);
  }
  const unknown = actions.find((action) => action !== everything && !actionNames.includes(action as Action));
  if (unknown !== undefined) {
    throw new UserError(
      `there is no action "${unknown}"; there are ${actionNames.join(', ')} and ${everything}`,
    );
  }
  return { object, actions: actions as Grant['actions'] };
}

/** The id of a profile, by organization and name. @throws UserError when there is none */
export async function profileId(tables: Platform, organization: string, name: string): Promise<string> {
  const row = await tables
    .selectFrom('crm_profiles')
    .select('id')
    .where('organization_id', '=', organization)
    .where('name', '=', name)
    .executeTakeFirst();
  if (row === undefined) {
    const others = await tables
      .selectFrom('crm_profiles')
      .select('name')
      .where('organization_id', '=', organization)
      .orderBy('name')
      .execute();
    const names = others.map((other) => other.name).join(', ');
    throw new UserError(`there is no profile "${name}" in this organization; there are ${names}`);
  }
  return String(row.id);
}
