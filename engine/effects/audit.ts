import { flag } from '../config/index.ts';
import { literal } from '../sql/index.ts';
import type { Effect, WriteInput } from './effect.ts';
import { activityTables } from './tables.ts';

const kind = ({ caller }: WriteInput) => caller.principal.kind;
const actor = ({ caller }: WriteInput) => caller.principal.actor;
const request = ({ caller }: WriteInput) => caller.requestId;

/** Records in the organization's audit log who wrote what. */
export const audit: Effect = {
  variable: flag('AUDIT', true),
  tables: activityTables,
  on: ['create', 'update', 'delete'],
  expression: ({ resource, action, written, source, placeholder }) =>
    `${written}_audit as (insert into "crm_activity" ("organization_id", "actor_kind", "actor_id", "action", "object", "object_id", "request_id") select "organization_id", ${placeholder(kind)}::text, ${placeholder(actor)}::bigint, ${literal(action)}, ${literal(resource)}, "id", ${placeholder(request)}::text from ${source})`,
};
