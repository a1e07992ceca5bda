import { type Placeholder, record } from '../sql/index.ts';

/** The values that every statement for records binds. */
export interface RowScope {
  /** Id of the caller's organization, decimal text. */
  readonly organization: string;
}

const organization = ({ organization }: RowScope) => organization;

/** The placeholder of the caller's organization. */
export const organizationOf = (placeholder: Placeholder<RowScope>): string =>
  `${placeholder(organization)}::bigint`;

/**
 * Defines the rows visible to a caller: the rows of the caller's organization. Every statement for records has this condition on
 * every table that it reads or writes; further conditions on rows belong here.
 * @param alias of the table in the statement; empty for none
 */
export const visibleSql = (placeholder: Placeholder<RowScope>, alias: string = record): string =>
  `${alias === '' ? '' : `${alias}.`}"organization_id" = ${organizationOf(placeholder)}`;
