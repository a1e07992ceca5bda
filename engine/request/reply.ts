import { pageSize } from '../compile/index.ts';
import type { Rows } from '../database/index.ts';
import { errors } from '../errors.ts';
import type { ListPlan } from './plan.ts';

/** Content-Type of every answer. */
export const json = 'application/json; charset=utf-8';

/**
 * The body of GET, POST and PUT of one record: the JSON that PostgreSQL built, as it is.
 * @throws HttpError 404 where there is no row
 */
export function recordReply(rows: Rows): string {
  const record = rows[0]?.[0];
  if (record === undefined || record === null) throw errors.notFound();
  return record;
}

/** The body of a list (contract section 4.1). */
export function listReply({ page }: ListPlan, rows: Rows): string {
  return `{"data":[${rows[0]?.[0] ?? ''}],"page":${page},"per_page":${pageSize}}`;
}

/**
 * The body of DELETE.
 * @throws HttpError 404 where nothing was deleted
 */
export function deletedReply(rows: Rows): string {
  if (rows.length === 0) throw errors.notFound();
  return '{"ok":true}';
}
