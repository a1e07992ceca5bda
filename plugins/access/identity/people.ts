import { UserError } from '../../../engine/errors.ts';
import { isRowId } from '../../../engine/fields/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import { normalEmail } from './users.ts';

/** A person as shown in an organization. */
export interface NamedPerson {
  readonly id: string;
  /** The person's name; null if it has not been entered. */
  readonly name: string | null;
  readonly email: string;
}

/** A person as shown to callers who cannot see email addresses. */
interface PersonWithoutEmail {
  readonly id: string;
  readonly name: string;
  readonly email: null;
}

/** A person as a caller sees them. */
export type VisiblePerson = NamedPerson | PersonWithoutEmail;

/** A name and an email address, of which at least one is known. */
type NameAndEmail = Pick<NamedPerson, 'name' | 'email'> | Pick<PersonWithoutEmail, 'name' | 'email'>;

/** Returns a person without their email address. The ID replaces a missing name. */
export const withoutEmail = ({ id, name }: NamedPerson): PersonWithoutEmail => ({
  id,
  name: name ?? `ID ${id}`,
  email: null,
});

/** Returns the text that represents a person: their name or, without a name, their email address. */
export const personLabel = (person: NameAndEmail): string =>
  person.email === null ? person.name : (person.name ?? person.email);

/** Returns the email address as the secondary text next to {@link personLabel}, or null if it is the label itself. */
export const personDetail = ({ name, email }: NameAndEmail): string | null => (name === null ? null : email);

/** Returns a value for pages: an avatar, the {@link personLabel} and the {@link personDetail}. */
export const personLines = (person: NameAndEmail) => ({
  text: personLabel(person),
  below: personDetail(person),
  isPerson: true,
});

/** Returns a person's name with the email address in one line, because several people can have the same name. */
export const personLine = (person: NameAndEmail): string => {
  const detail = personDetail(person);
  return detail === null ? personLabel(person) : `${personLabel(person)} (${detail})`;
};

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

/** Returns the organization's member with an email address or ID. @throws UserError if there is not exactly one */
export async function findMember(tables: Tables, organization: string, user: string): Promise<NamedPerson> {
  const email = isRowId(user) ? undefined : normalEmail(user);
  const members = await listMembers(tables, organization);
  const [member, ...others] = members.filter((candidate) =>
    email === undefined ? candidate.id === user : candidate.email === email,
  );
  if (member === undefined) throw new UserError(`${user} is not a member of this organization`);
  if (others.length === 0) return member;
  const ids = [member, ...others].map(({ id }) => id).join(', ');
  throw new UserError(`${user} belongs to several members. Use an ID instead: ${ids}.`);
}

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
