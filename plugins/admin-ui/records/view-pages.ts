import { resourceLabel } from '../../../engine/definition/index.ts';
import { capitalize, errors, UserError } from '../../../engine/errors.ts';
import { isRowId } from '../../../engine/fields/index.ts';
import { type Tables, tablesOf, transaction } from '../../../engine/tables/index.ts';
import {
  changeView,
  createView,
  deleteView,
  findView,
  type SavedView,
  setDefaultView,
} from '../saved-views/index.ts';
import {
  ForbiddenError,
  type Form,
  type FormPage,
  field,
  type Input,
  messageIn,
  nameInput,
  redirectDone,
  type Text,
} from '../shell/index.ts';
import { viewParameters } from './list-parameters.ts';
import type { DataHandler, DataRequest, DataRoutes } from './routes.ts';
import { type RecordsText, recordsTexts } from './texts/index.ts';
import { canChange, memberList, viewUrl } from './view-tabs.ts';

/** Registers the forms that save, change and delete views of lists. */
export function viewPages({ get, post }: DataRoutes): void {
  get('/views', async ({ reply, path }) => reply.redirect(path, 303));
  get('/views/new', async (context) => {
    assertCanSave(context);
    return context.sendPage({
      kind: 'form',
      ...newView(context, queryOf(context, context.request.url.split('?')[1] ?? ''), {}),
    });
  });
  post('/views', async (context) => {
    assertCanSave(context);
    const form = formOf(context);
    const query = queryOf(context, field(form, 'query'));
    return orAgain(
      context,
      (problem) => context.sendPage({ kind: 'form', ...newView(context, query, form) }, { problem }),
      async (tables) => {
        const { actor } = context.member;
        const list = memberList(context);
        const id = await createView(tables, actor, list, { ...inputOf(form), query });
        if (field(form, 'default') === 'true') await setDefaultView(tables, list, id, true);
        return { id, done: 'view-saved' };
      },
    );
  });
  get('/views/:view/edit', async (context) => {
    assertCanSave(context);
    const view = await currentView(context);
    const form = { name: view.name, shared: String(view.isShared), default: String(view.isDefault) };
    return context.sendPage({ kind: 'form', ...editView(context, view, form) });
  });
  post('/views/:view/edit', async (context) => {
    assertCanSave(context);
    const view = await currentView(context);
    const form = formOf(context);
    return orAgain(
      context,
      (problem) => context.sendPage({ kind: 'form', ...editView(context, view, form) }, { problem }),
      async (tables) => {
        const list = memberList(context);
        const { query } = view;
        if (canChange(context, view))
          await changeView(tables, context.member.actor, list, view, { ...inputOf(form), query });
        await setDefaultView(tables, list, view.id, field(form, 'default') === 'true');
        return { id: view.id, done: 'view-saved' };
      },
    );
  });
  get('/views/:view/query', redirectToView);
  post('/views/:view/query', async (context) => {
    const view = await changeableView(context);
    const query = queryOf(context, field(formOf(context), 'query'));
    return orAgain(
      context,
      () => redirectToView(context),
      async (tables) => {
        await changeView(tables, context.member.actor, memberList(context), view, { ...view, query });
        return { id: view.id, done: 'view-saved' };
      },
    );
  });
  get('/views/:view/delete', async (context) => {
    const { t } = context;
    const view = await changeableView(context);
    return context.sendPage({
      kind: 'confirm',
      title: t('deleteViewQuestion', { name: view.name }),
      above: { label: view.name, href: viewUrl(context, view) },
      consequence: view.isShared ? t('deletesSharedView') : t('deletesView'),
      action: `${context.path}/views/${view.id}/delete`,
      hidden: [],
      submit: t('deleteView'),
      cancel: viewUrl(context, view),
    });
  });
  post('/views/:view/delete', async (context) => {
    const { database, member, request, reply, path } = context;
    const view = await changeableView(context);
    await transaction(database, (tables) => deleteView(tables, member.actor, memberList(context), view));
    return redirectDone(request, reply, `${path}?view=all`, 'view-deleted', { name: view.name });
  });
}

const formOf = ({ request }: DataRequest): Form => (request.body ?? {}) as Form;

/** Returns the parts of a query string that belong to a view. */
const queryOf = ({ resource }: DataRequest, query: string): string =>
  String(viewParameters(resource, new URLSearchParams(query)).parameters);

/** Returns the values in a view's form. */
const inputOf = (form: Form) => ({ name: field(form, 'name'), isShared: field(form, 'shared') === 'true' });

/** @throws HttpError 403 if the member cannot list the records, or views them as a profile */
function assertCanSave({ calls, resource, isViewingAs }: DataRequest): void {
  if (!calls.allows(resource, 'list')) throw errors.forbidden(resource.name, 'list');
  if (isViewingAs) throw new ForbiddenError(recordsTexts.later('viewingAs'));
}

/** Returns the form that saves a list as a view. @param form the submitted values */
const newView = (context: DataRequest, query: string, form: Form): FormPage<Text> => {
  const { path, t } = context;
  const cancel = query === '' ? path : `${path}?${query}`;
  return {
    title: t('saveView'),
    above: { label: resourceLabel(context.resource.definition), href: cancel },
    action: `${path}/views`,
    hidden: [{ name: 'query', value: query }],
    inputs: [viewName(form, t), ...viewInputs(form, t)],
    submit: t('saveView'),
    cancel,
  };
};

/** Returns the form that changes a view, without the properties that the member cannot change. */
function editView(context: DataRequest, view: SavedView, form: Form): FormPage<Text> {
  const { path, t } = context;
  const back = viewUrl(context, view);
  const isChangeable = canChange(context, view);
  return {
    title: t('editView'),
    above: { label: view.name, href: back },
    action: `${path}/views/${view.id}/edit`,
    inputs: isChangeable
      ? [viewName(form, t), ...viewInputs(form, t)]
      : [
          { kind: 'fixed', name: 'name', label: t('viewName'), value: view.name },
          ...viewInputs(form, t).filter(({ name }) => name === 'default'),
        ],
    submit: t('saveView'),
    cancel: back,
    ...(isChangeable && { danger: { label: t('deleteView'), href: `${path}/views/${view.id}/delete` } }),
  };
}

const viewName = (form: Form, t: RecordsText): Input<Text> => ({
  ...nameInput(t('viewName'), field(form, 'name'), t('viewNameHelp')),
  label: t('viewName'),
});

const viewInputs = (form: Form, t: RecordsText): readonly Input<Text>[] => [
  {
    kind: 'checkbox',
    name: 'shared',
    label: t('shareView'),
    checked: field(form, 'shared') === 'true',
    help: t('shareViewHelp'),
  },
  {
    kind: 'checkbox',
    name: 'default',
    label: t('defaultView'),
    checked: field(form, 'default') === 'true',
    help: t('defaultViewHelp'),
  },
];

/** Returns the view in the URL. @throws HttpError 404 if it does not exist or belongs to another member */
async function currentView(context: DataRequest): Promise<SavedView> {
  const { view: id } = context.request.params as { view: string };
  const view = isRowId(id) ? await findView(tablesOf(context.database), memberList(context), id) : undefined;
  if (view === undefined) throw errors.notFound();
  return view;
}

/** Returns the view in the URL if the member can change it. */
async function changeableView(context: DataRequest): Promise<SavedView> {
  assertCanSave(context);
  const view = await currentView(context);
  if (!canChange(context, view)) throw new ForbiddenError(recordsTexts.later('viewOfOthers'));
  return view;
}

const redirectToView: DataHandler = async (context) =>
  context.reply.redirect(viewUrl(context, await currentView(context)), 303);

/** Stores a view and redirects to its list, or sends the form again with the reason why the view was not stored. */
async function orAgain(
  context: DataRequest,
  again: (problem: string) => Promise<unknown>,
  store: (tables: Tables) => Promise<{ readonly id: string; readonly done: string }>,
): Promise<unknown> {
  const { database, request, reply, path } = context;
  try {
    const { id, done } = await transaction(database, store);
    const view = await findView(tablesOf(database), memberList(context), id);
    const url = view === undefined ? path : viewUrl(context, view);
    return await redirectDone(request, reply, url, done, { name: view?.name ?? '' });
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    reply.code(400);
    return again(capitalize(messageIn(error, context.language)));
  }
}
