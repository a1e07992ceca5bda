import { literal, type Placeholder } from '../sql/index.ts';
import { userTable } from '../tables/index.ts';
import { allows, membersObject } from './access.ts';
import type { CallerScope } from './rows.ts';

const canListMembers = ({ caller }: CallerScope): string =>
  String(allows(caller.principal.grants, membersObject, 'list'));

/** Returns an SQL condition that is true if the caller can see the email addresses of users. */
export const showsEmailSql = (placeholder: Placeholder<CallerScope>): string =>
  `${placeholder(canListMembers)}::text::boolean`;

/** Matches the member's email address in the name of a key on behalf of a member, and what follows in parentheses. */
const memberPattern = literal(' on behalf of [^ ]+@[^ ]+( [(].*[)])?$');

/** Returns the name of a user who has approved a proposal, as logged. @param name the user's email address */
export const approverName = (name: string | null, proposal: string, proposer: string): string =>
  `${name ?? ''} (proposal ${proposal} of ${proposer})`;

const approvalSource = ' [(]proposal [0-9]+ of .*[)]$';
/** Matches what {@link approverName} adds to a name. */
const approvalPattern = literal(approvalSource);

/** Returns what {@link approverName} has added to a user's name, starting with a space; empty for all other names. */
export const approvalIn = (name: string | null): string =>
  new RegExp(approvalSource).exec(name ?? '')?.[0] ?? '';

const callerKind = ({ caller }: CallerScope) => caller.principal.kind;
const callerId = ({ caller }: CallerScope) => caller.principal.actor;

/**
 * Returns an SQL expression for the name of the actor in row `l` of the change log. Users are logged with their email
 * address, followed by the proposal if they have approved one. A caller that cannot see the address gets the user's
 * current name instead, which is null until it is entered.
 */
export const actorNameSql = (placeholder: Placeholder<CallerScope>): string => {
  const isCaller = `(l."actor_kind" = ${placeholder(callerKind)}::text and l."actor_id" = ${placeholder(callerId)}::bigint)`;
  return [
    `case when ${showsEmailSql(placeholder)} or ${isCaller} or l."actor_kind" not in ('user', 'key') then l."actor_name"`,
    `when l."actor_kind" = 'user' then (select nullif(ltrim(concat(_u."name", substring(l."actor_name" from ${approvalPattern}))), '') from ${userTable} _u where _u."id" = l."actor_id")`,
    `else regexp_replace(l."actor_name", ${memberPattern}, ' on behalf of a member\\1') end`,
  ].join(' ');
};
