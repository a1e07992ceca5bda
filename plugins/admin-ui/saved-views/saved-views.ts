import type { SelectQueryBuilder } from 'kysely';
import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { displayName, type TableRows, type Tables } from '../../../engine/tables/index.ts';
import { TranslatedError } from '../shell/index.ts';
import { savedViewsTexts } from './texts/index.ts';

const { later } = savedViewsTexts;

/** A resource's list, as one member sees it. IDs are decimal strings. */
export interface MemberList {
  readonly organization: string;
  readonly user: string;
  readonly resource: string;
}

/** The properties of a view that its owner chooses. */
export interface ViewInput {
  readonly name: string;
  /** The list's filters, search, order and columns, as a query string. */
  readonly query: string;
  /** Whether all members of the organization can use the view. */
  readonly isShared: boolean;
}

/** A saved view that a member can use. */
export interface SavedView extends ViewInput {
  readonly id: string;
  /** Whether the member saved the view. */
  readonly isOwn: boolean;
  /** Whether the member's list opens with the view. */
  readonly isDefault: boolean;
}

/** Maximum number of a user's views of one resource. */
const maxViews = 50;
/** Maximum number of views shown on a list, including views that other members share. */
const maxListed = 100;
/** Maximum number of characters in a view's query string. */
const maxQueryLength = 4000;

/** Selects the views of a list that a member can use: the member's own views and shared views. */
const usableViews = (tables: Tables, { organization, user, resource }: MemberList) =>
  tables
    .selectFrom('crm_saved_views as v')
    .where('v.organization_id', '=', organization)
    .where('v.resource', '=', resource)
    .where(({ eb, or }) => or([eb('v.user_id', '=', user), eb('v.is_shared', '=', true)]));

/** Reads views as the member sees them. */
async function read(
  query: SelectQueryBuilder<TableRows & { v: TableRows['crm_saved_views'] }, 'v', object>,
  { user }: MemberList,
): Promise<SavedView[]> {
  const rows = await query
    .leftJoin('crm_default_views as d', (join) =>
      join
        .onRef('d.organization_id', '=', 'v.organization_id')
        .onRef('d.view_id', '=', 'v.id')
        .onRef('d.resource', '=', 'v.resource')
        .on('d.user_id', '=', user),
    )
    .select(['v.id', 'v.name', 'v.query', 'v.is_shared', 'v.user_id', 'd.view_id'])
    .orderBy('v.name')
    .orderBy('v.id')
    .limit(maxListed)
    .execute();
  return rows.map((row) => ({
    id: row.id,
    name: row.name,
    query: row.query,
    isShared: row.is_shared,
    isOwn: row.user_id === user,
    isDefault: row.view_id !== null,
  }));
}

/** Returns the views that a member can use, sorted by name. */
export const listViews = (tables: Tables, list: MemberList): Promise<SavedView[]> =>
  read(usableViews(tables, list), list);

/** Returns a view that a member can use, or undefined if it does not exist. */
export async function findView(tables: Tables, list: MemberList, id: string): Promise<SavedView | undefined> {
  const [view] = await read(usableViews(tables, list).where('v.id', '=', id), list);
  return view;
}

/**
 * Saves a view. Only shared views appear in the change log.
 * @returns the view's ID
 * @throws UserError if the user already has a view of the list with this name, or too many views
 */
export async function createView(
  tables: Tables,
  actor: Actor,
  { organization, user, resource }: MemberList,
  input: ViewInput,
): Promise<string> {
  const { count } = await tables
    .selectFrom('crm_saved_views')
    .select(({ fn }) => fn.countAll<string>().as('count'))
    .where('organization_id', '=', organization)
    .where('resource', '=', resource)
    .where('user_id', '=', user)
    .executeTakeFirstOrThrow();
  if (Number(count) >= maxViews) throw new TranslatedError(later('tooMany', { max: String(maxViews) }));
  const values = valuesOf(input);
  const row = await tables
    .insertInto('crm_saved_views')
    .values({ organization_id: organization, user_id: user, resource, ...values })
    .onConflict((conflict) =>
      conflict.columns(['organization_id', 'resource', 'user_id', 'name']).doNothing(),
    )
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw nameTaken(values.name);
  await log(tables, actor, organization, 'create', row.id, input.isShared);
  return row.id;
}

/**
 * Changes a view's name, query and visibility.
 * @throws UserError if the owner already has another view of the list with this name
 */
export async function changeView(
  tables: Tables,
  actor: Actor,
  { organization, resource }: MemberList,
  view: SavedView,
  input: ViewInput,
): Promise<void> {
  const values = valuesOf(input);
  const duplicate = await tables
    .selectFrom('crm_saved_views as v')
    .innerJoin('crm_saved_views as o', (join) =>
      join
        .onRef('o.organization_id', '=', 'v.organization_id')
        .onRef('o.resource', '=', 'v.resource')
        .onRef('o.user_id', '=', 'v.user_id')
        .onRef('o.id', '<>', 'v.id'),
    )
    .select('o.id')
    .where('v.organization_id', '=', organization)
    .where('v.resource', '=', resource)
    .where('v.id', '=', view.id)
    .where('o.name', '=', values.name)
    .executeTakeFirst();
  if (duplicate !== undefined) throw nameTaken(values.name);
  await tables
    .updateTable('crm_saved_views')
    .set(values)
    .where('organization_id', '=', organization)
    .where('id', '=', view.id)
    .execute();
  await log(tables, actor, organization, 'update', view.id, view.isShared || input.isShared);
}

/** Deletes a view. */
export async function deleteView(
  tables: Tables,
  actor: Actor,
  { organization }: MemberList,
  view: SavedView,
): Promise<void> {
  await tables
    .deleteFrom('crm_saved_views')
    .where('organization_id', '=', organization)
    .where('id', '=', view.id)
    .execute();
  await log(tables, actor, organization, 'delete', view.id, view.isShared);
}

/** Makes a view the one with which the member's list opens, or removes it as the default. */
export async function setDefaultView(
  tables: Tables,
  { organization, user, resource }: MemberList,
  id: string,
  isDefault: boolean,
): Promise<void> {
  const row = { organization_id: organization, user_id: user, resource, view_id: id };
  if (isDefault)
    await tables
      .insertInto('crm_default_views')
      .values(row)
      .onConflict((conflict) =>
        conflict.columns(['organization_id', 'user_id', 'resource']).doUpdateSet({ view_id: id }),
      )
      .execute();
  else
    await tables
      .deleteFrom('crm_default_views')
      .where('organization_id', '=', organization)
      .where('user_id', '=', user)
      .where('resource', '=', resource)
      .where('view_id', '=', id)
      .execute();
}

/** Returns a view's columns. @throws UserError if the name or the query string cannot be stored */
function valuesOf({ name, query, isShared }: ViewInput) {
  if (query.length > maxQueryLength) throw new TranslatedError(later('tooManyFilters'));
  return { name: displayName(name, 'the name', 100), query, is_shared: isShared };
}

const nameTaken = (name: string) => new TranslatedError(later('nameTaken', { name }));

/** Records a change to a shared view. */
async function log(
  tables: Tables,
  actor: Actor,
  organization: string,
  action: 'create' | 'update' | 'delete',
  objectId: string,
  isShared: boolean,
): Promise<void> {
  if (isShared) await recordChanges(tables, actor, { organization, action, object: 'saved view', objectId });
}
