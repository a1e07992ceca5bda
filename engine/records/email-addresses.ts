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

const callerKind = ({ caller }: CallerScope) => caller.principal.kind;
const callerId = ({ caller }: CallerScope) => caller.principal.actor;

/**
 * Returns an SQL expression for the name of the actor in row `l` of the change log. Users are logged with their email
 * address. A caller that cannot see it gets the user's current name, which is null until it is entered.
 */
export const actorNameSql = (placeholder: Placeholder<CallerScope>): string => {
  const isCaller = `(l."actor_kind" = ${placeholder(callerKind)}::text and l."actor_id" = ${placeholder(callerId)}::bigint)`;
  return [
    `case when ${showsEmailSql(placeholder)} or ${isCaller} or l."actor_kind" not in ('user', 'key') then l."actor_name"`,
    `when l."actor_kind" = 'user' then (select _u."name" from ${userTable} _u where _u."id" = l."actor_id")`,
    `else regexp_replace(l."actor_name", ${memberPattern}, ' on behalf of a member\\1') end`,
  ].join(' ');
};
