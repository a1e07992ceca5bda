/**
 * Table of an organization's members, with the columns `organization_id` and `user_id`. Users belong to another module,
 * which declares the table.
 */
export const memberTable = 'crm_memberships';

/** Returns an SQL condition that is true if a user is a member of an organization. */
export const isMemberSql = (organization: string, user: string): string =>
  `exists (select from ${memberTable} _m where _m."organization_id" = ${organization} and _m."user_id" = ${user})`;
