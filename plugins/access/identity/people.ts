import type { Tables } from '../../../engine/tables/index.ts';

/** A person as shown in an organization. */
export interface NamedPerson {
  readonly id: string;
  /** The person's name; null if it has not been entered. */
  readonly name: string | null;
  readonly email: string;
}

type NameAndEmail = Pick<NamedPerson, 'name' | 'email'>;

/** Returns the text that represents a person: their name or, without a name, their email address. */
export const personLabel = ({ name, email }: NameAndEmail): string => name ?? email;

/** Returns the email address as the secondary text next to {@link personLabel}, or null if it is the label itself. */
export const personDetail = ({ name, email }: NameAndEmail): string | null => (name === null ? null : email);

/** Returns a value for pages: the {@link personLabel} with the {@link personDetail} on a second line. */
export const personLines = (person: NameAndEmail) => ({
  text: personLabel(person),
  below: personDetail(person),
});

/** Returns a person's name with the email address in one line, because several people can have the same name. */
export const personLine = ({ name, email }: NameAndEmail): string =>
  name === null ? email : `${name} (${email})`;

/** Returns an organization's members, sorted by name or, without a name, by email address. */
export const listMembers = (tables: Tables, organization: string): Promise<NamedPerson[]> =>
  tables
    .selectFrom('crm_memberships as m')
    .innerJoin('crm_users as u', 'u.id', 'm.user_id')
    .select(['u.id', 'u.name', 'u.email'])
    .where('m.organization_id', '=', organization)
    .orderBy(({ fn }) => fn<string>('lower', [fn.coalesce('u.name', 'u.email')]))
    .orderBy('u.id')
    .execute();

/**
 * Finds people by ID in one statement.
 * @param ids IDs from the organization's own rows, for example a record's creator. Can contain duplicates
 */
export async function findPeople(
  tables: Tables,
  ids: readonly string[],
): Promise<ReadonlyMap<string, NamedPerson>> {
  if (ids.length === 0) return new Map();
  const rows = await tables
    .selectFrom('crm_users')
    .select(['id', 'name', 'email'])
    .where('id', 'in', [...new Set(ids)])
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
}
