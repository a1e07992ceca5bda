import { countRows, findRow } from '../../../engine/tables/index.ts';
import type { CurrentMember } from './access.ts';
import type { TextIn } from './catalogue.ts';
import { type Form, idField } from './form.ts';
import type { Placement } from './frame.ts';
import type { ActionPage, ObjectAction, ObjectContext, ObjectDefinition, ObjectServices } from './object.ts';
import { type ListSpecification, rowList, specificationOf } from './row-list.ts';
import type { Section } from './section.ts';
import { shellTexts } from './texts/index.ts';
import { TranslatedError } from './translated-error.ts';
import type { AnyPage, ListView } from './views.ts';

type Request = Parameters<Section['load']>[1];

/** Maximum number of rows that are counted for the label of a list. */
export const maxTabCount = 1000;

/** Returns the context for an administrator's request. */
export type ContextOf<Services> = (admin: CurrentMember, request: Request) => ObjectContext<Services>;

/** The parts of a section that follow from an object's definition. */
type DerivedParts = Required<Pick<Section, 'done' | 'pages' | 'wholeValues' | 'once' | 'actions'>>;

/** The parts that an object contributes to its section. */
interface ObjectParts<Services> extends DerivedParts {
  readonly list: (context: ObjectContext<Services>) => Promise<ListView>;
  /** Counts the rows, up to one more than {@link maxTabCount}. */
  readonly count: (context: ObjectContext<Services>) => Promise<number>;
}

/** A declared object, independent of its row type. */
export interface AdminObject<Services>
  extends Pick<ObjectDefinition<never, Services>, 'name' | 'title' | 'tab' | keyof Placement> {
  readonly list: ListSpecification;
  /** Action names, and whether each action has a page. */
  readonly actionPages: Readonly<Record<string, boolean>>;
  readonly partsOf: (contextOf: ContextOf<Services>) => ObjectParts<Services>;
}

/** Declares an administrative object: its list, forms, confirmations and actions follow from its definition. */
export function defineObject<Row extends { readonly id: string }, Services extends ObjectServices>(
  definition: ObjectDefinition<Row, Services>,
): AdminObject<Services> {
  const { name, title, tab, group, icon, isListed, source, actions = {}, rowActions = {} } = definition;
  const all = [...Object.entries(actions), ...Object.entries(rowActions)];
  return {
    name,
    title,
    ...(tab && { tab }),
    group,
    icon,
    isListed,
    list: specificationOf(definition),
    actionPages: Object.fromEntries(all.map(([action, { page }]) => [action, page !== undefined])),
    partsOf: (contextOf) => ({
      list: (context) => objectList(definition, context),
      count: ({ tables, owner }) => countRows(tables, source, owner, { limit: maxTabCount + 1 }),
      ...partsOf(definition, contextOf),
    }),
  };
}

/** Reads the row whose ID is in a form. @throws UserError if the row does not exist */
async function rowOf<Row extends { readonly id: string }, Services>(
  { source, missing }: ObjectDefinition<Row, Services>,
  { tables, owner }: ObjectContext<Services>,
  form: Form,
): Promise<Row> {
  const id = idField(form, 'id');
  const row = await findRow(tables, source, owner, id);
  if (row === undefined) throw new TranslatedError(missing(id));
  return row;
}

/** Adds an action's URL, the ID of its row and the link back to its page. */
function complete(page: ActionPage, action: string, back: string, id?: string): AnyPage & { title: string } {
  if (page.kind === 'home') return page;
  const hidden = [
    ...(id === undefined ? [] : [{ name: 'id', value: id }]),
    ...('hidden' in page ? (page.hidden ?? []) : []),
  ];
  return { ...page, action, cancel: back, hidden };
}

function partsOf<Row extends { readonly id: string }, Services>(
  definition: ObjectDefinition<Row, Services>,
  contextOf: ContextOf<Services>,
): DerivedParts {
  const { nameOf, pages = {}, wholeValues = {}, actions = {}, rowActions = {} } = definition;
  const done: Record<string, TextIn> = {};
  const once: string[] = [];
  const sectionPages: Record<string, NonNullable<Section['pages']>[string]> = {};
  const sectionValues: Record<string, NonNullable<Section['wholeValues']>[string]> = {};
  const sectionActions: Record<string, Section['actions'][string]> = {};
  /** Adds an action. @param read reads the action's row */
  const add = <Subject extends Row | undefined>(
    name: string,
    action: ObjectAction<Subject, Services>,
    read: (context: ObjectContext<Services>, form: Form) => Promise<Subject>,
  ) => {
    const { page, run, isOffered, isOnce } = action;
    Object.assign(done, action.done);
    if (isOnce === true) once.push(name);
    if (page !== undefined)
      sectionPages[name] = async (admin, { form, request, back }) => {
        const context = contextOf(admin, request);
        const row = await read(context, form);
        if (isOffered?.(row, context) === false) {
          const subject =
            row === undefined ? definition.plural(context.language) : nameOf(row, context.language);
          const label = action.label(context.language, row);
          throw new TranslatedError(shellTexts.later('notAvailable', { action: label, name: subject }));
        }
        return complete(await page(context, form, row), context.urlOf(name), back, row?.id);
      };
    sectionActions[name] = async (sender, form, request) => {
      const context = { ...contextOf(sender, request), transact: sender.transact };
      const row = await read(context, form);
      const outcome = await run(context, form, row);
      if (outcome) return outcome;
      const [code = ''] = Object.keys(action.done ?? {});
      return { done: code, ...(row !== undefined && { name: nameOf(row, context.language), id: row.id }) };
    };
  };
  for (const [name, action] of Object.entries(actions)) add(name, action, async () => undefined);
  for (const [name, action] of Object.entries(rowActions))
    add(name, action, (context, form) => rowOf(definition, context, form));
  for (const [name, page] of Object.entries(pages))
    sectionPages[name] = async (admin, { form, request }) => {
      const context = contextOf(admin, request);
      const row = await rowOf(definition, context, form);
      const content = await page(context, row);
      return content.kind === 'record'
        ? { ...content, buttons: menuOf(definition, context, row).buttons }
        : content;
    };
  for (const [name, value] of Object.entries(wholeValues))
    sectionValues[name] = async (admin, { form, request }) => {
      const context = contextOf(admin, request);
      return value(context, await rowOf(definition, context, form));
    };
  return { done, once, pages: sectionPages, wholeValues: sectionValues, actions: sectionActions };
}

/** Returns the row's name, the links to pages for its actions, and buttons for actions without a page. */
function menuOf<Row extends { readonly id: string }, Services>(
  { nameOf, menu, rowActions = {} }: ObjectDefinition<Row, Services>,
  context: ObjectContext<Services>,
  row: Row,
) {
  const { links = [], buttons = [] } = menu?.(row, context) ?? {};
  const entries = Object.entries(rowActions)
    .filter(([, { isOffered }]) => isOffered?.(row, context) !== false)
    .map(([name, { page, fields, accessibleName, ...action }]) => {
      const [label, url] = [action.label(context.language, row), context.urlOf(name)];
      const rowName = nameOf(row, context.language);
      const fullName = accessibleName?.(rowName, row)(context.language) ?? `${label} ${rowName}`;
      const entry = { label, name: fullName };
      return page === undefined
        ? {
            ...entry,
            action: url,
            fields: [{ name: 'id', value: row.id }, ...(fields?.(row, context) ?? [])],
          }
        : { ...entry, href: `${url}?id=${row.id}` };
    });
  return {
    label: nameOf(row, context.language),
    links: [...links, ...entries.filter((entry) => 'href' in entry)],
    buttons: [...buttons, ...entries.filter((entry) => 'action' in entry)],
  };
}

/** Returns an object's list and its actions. */
export async function objectList<Row extends { readonly id: string }, Services>(
  definition: ObjectDefinition<Row, Services>,
  context: ObjectContext<Services>,
): Promise<ListView> {
  const entries = Object.entries(definition.actions ?? {}).map(([name, action]) => ({
    ...action,
    url: context.urlOf(name),
    label: action.label(context.language, undefined),
  }));
  const [first] = entries;
  const primary = first?.page && { label: first.label, href: first.url };
  const menu = (row: Row) => menuOf(definition, context, row);
  const list = await rowList({ ...definition, menu }, context, primary);
  const buttons = entries
    .filter(({ page, isOffered }) => page === undefined && isOffered?.(undefined, context) !== false)
    .map(({ label, url, fields }) => ({
      ...{ label, name: label, action: url },
      fields: fields?.(undefined, context) ?? [],
    }));
  return { ...list, primary, all: list.rows.length === 0 ? [] : buttons };
}
