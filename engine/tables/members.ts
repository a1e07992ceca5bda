/**
 * Table of an organization's members, with the columns `organization_id` and `user_id`. Users belong to another module,
 * which declares the table.
 */
export const memberTable = 'crm_memberships';

/** Returns an SQL condition that is true if a user is a member of an organization. */
export const isMemberSql = (organization: string, user: string): string =>
  `exists (select from ${memberTable} _m where _m."organization_id" = ${organization} and _m."user_id" = ${user})`;

/** Table of users, with the columns `id`, `name` and `email`, declared by the same module. */
export const userTable = 'crm_users';

/** Table of the members of teams, with the columns `organization_id`, `team_id` and `user_id`, declared by another module. */
export const teamMemberTable = 'crm_team_members';

/**
 * Returns an SQL expression for an array of user IDs: a user and everyone in the user's teams. The array contains only null
 * if the user is null.
 */
export const teamSql = (organization: string, user: string): string =>
  `array(select ${user} union all select _c."user_id" from ${teamMemberTable} _t join ${teamMemberTable} _c on _c."organization_id" = _t."organization_id" and _c."team_id" = _t."team_id" where _t."organization_id" = ${organization} and _t."user_id" = ${user})`;

/** Number of members per team in query plans. */
const teamSize = 10;

/**
 * Returns statements that insert users who are members of every organization and of one of its teams, for query plans.
 * @param count number of users
 */
export const insertMembersSql = (count: number): readonly string[] => [
  `insert into ${userTable} ("email", "password_hash") select 'user ' || n, '' from generate_series(1, ${count}) n`,
  `insert into "crm_profiles" ("organization_id", "name") select "id", '' from "crm_organizations"`,
  `insert into ${memberTable} ("organization_id", "user_id", "profile_id") select _p."organization_id", _u."id", _p."id" from ${userTable} _u cross join "crm_profiles" _p`,
  `insert into "crm_teams" ("organization_id", "name") select "id", n::text from "crm_organizations", generate_series(1, ${Math.ceil(count / teamSize)}) n`,
  `insert into ${teamMemberTable} ("organization_id", "team_id", "user_id") select _m."organization_id", _t."id", _m."user_id" from ${memberTable} _m join "crm_teams" _t on _t."organization_id" = _m."organization_id" and _t."name" = (_m."user_id" / ${teamSize} + 1)::text`,
];

/** A user to whom a record refers, as SQL expressions. */
interface ReferencedUser {
  readonly organization: string;
  /** ID of the user. */
  readonly user: string;
  /** Condition that is true if the caller can see email addresses of members. */
  readonly showsEmail: string;
}

/**
 * Returns an SQL expression for a user as JSON. It is null if the user does not exist. A user who is no longer a member
 * has only an ID, a name and `former`.
 */
export function referencedUserSql({ organization, user, showsEmail }: ReferencedUser): string {
  const json = (columns: string) => `(select row_to_json(_p) from (select _u."id", _u."name"${columns}) _p)`;
  return `(select case when not ${isMemberSql(organization, '_u."id"')} then ${json(', true as "former"')} when ${showsEmail} then ${json(', _u."email"')} else ${json('')} end from ${userTable} _u where _u."id" = ${user})`;
}
