import { type Placeholder, record } from '../sql/index.ts';

/** The values bound by every statement for records. */
export interface RowScope {
  /** ID of the caller's organization, as a decimal string. */
  readonly organization: string;
}

const organization = ({ organization }: RowScope) => organization;

/** Returns an SQL expression for the organization's ID. */
export const organizationOf = (placeholder: Placeholder<RowScope>): string =>
  `${placeholder(organization)}::bigint`;

/**
 * Returns the condition that limits rows to those visible to the caller, that is, to its organization's rows.
 * Every statement for records must apply this condition to every table that it reads or writes. Additional
 * visibility conditions belong here.
 * @param alias the table's alias; empty if it has none
 */
export const visibleSql = (placeholder: Placeholder<RowScope>, alias: string = record): string =>
  `${alias === '' ? '' : `${alias}.`}"organization_id" = ${organizationOf(placeholder)}`;
