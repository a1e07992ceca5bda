import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { resourceLabel } from '../../../engine/definition/index.ts';
import { errors } from '../../../engine/errors.ts';
import { allows, membersObject } from '../../../engine/records/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import { findPeople, listMembers, withoutEmail } from '../../access/identity/index.ts';
import { type InstanceSecrets, signing } from '../../access/secrets/index.ts';
import {
  addDoneTexts,
  addedFilter,
  addRecords,
  filterLink,
  iconNames,
  languageOf,
  localeOf,
  memberOf,
  show,
  signedIn,
} from '../shell/index.ts';
import { actionPages } from './action-pages.ts';
import { boardPages } from './board-page.ts';
import { bulkEditPages } from './bulk-edit-pages.ts';
import { prepareCalls } from './calls.ts';
import { resourceViewsOf } from './custom-values.ts';
import { deletePages } from './delete-pages.ts';
import { editPages } from './edit-pages.ts';
import { exportPage } from './export-page.ts';
import { recordParts } from './home-parts.ts';
import { importPage } from './import-page.ts';
import { jobPages } from './job-pages.ts';
import { chosenFilters, convertFilter } from './list-filters.ts';
import { chosenOrder } from './list-order.ts';
import { listPage } from './list-page.ts';
import { usedParameters } from './list-parameters.ts';
import { mergePages, unmergeButton } from './merge-pages.ts';
import { notePages } from './note-pages.ts';
import { reassignNotices, reassignPages } from './reassign-pages.ts';
import { recordPages } from './record-pages.ts';
import { referencesOf } from './references.ts';
import { rememberColumns } from './remembered-columns.ts';
import type { DataHandler, DataRoutes } from './routes.ts';
import { searchPage } from './search-page.ts';
import { stopViewing, viewerOf } from './see-as.ts';
import { recordsTexts } from './texts/index.ts';
import { trashPages } from './trash-pages.ts';
import { undoButton } from './undo.ts';
import { resourceNoun, titlesOf } from './values.ts';
import { viewPages } from './view-pages.ts';
import { usableViews, viewUrl } from './view-tabs.ts';

/** Services required for the records pages. */
export interface DataServices {
  readonly resources: readonly Resource[];
  readonly database: Database;
  readonly secrets: InstanceSecrets;
  readonly config: { readonly notes: boolean };
}

/** Registers a list, a record page and forms for each resource, generated from its definition. */
export function dataPages(
  app: FastifyInstance,
  { resources, database, secrets, config }: DataServices,
): void {
  const callsOf = prepareCalls(app, { database, resources, signing: signing(secrets, 'cursors of lists') });
  addRecords(app, ({ grants }, language) =>
    resources
      .filter(({ definition }) => definition.screen.isHidden !== true && allows(grants, definition, 'list'))
      .map((resource) => ({
        name: `data/${resource.name}`,
        title: resourceLabel(resource.definition),
        create: allows(grants, resource.definition, 'create')
          ? recordsTexts(language)('create', { name: resourceNoun(resource, language) })
          : undefined,
        section: resource.definition.screen.section,
        icon: iconNames.find((icon) => icon === resource.definition.screen.icon),
      })),
  );
  recordParts(app, { resources, database, callsOf });
  reassignNotices(app, { resources, database });
  const { later } = recordsTexts;
  addDoneTexts(app, {
    'record-created': later('created'),
    'record-saved': { text: later('saved'), undo: undoButton },
    'record-same': later('unchanged'),
    'record-deleted': { text: later('deleted'), undo: undoButton },
    'record-undone': { text: later('undone'), undo: undoButton },
    'record-restored': later('restoredWithNewId'),
    'records-deleted': { text: later('deleted'), undo: undoButton },
    'records-deleted-partly': { text: later('deletedPartly'), undo: undoButton },
    'records-updated': { text: later('updated'), undo: undoButton },
    'records-updated-partly': { text: later('updatedPartly'), undo: undoButton },
    'records-undone': later('undone'),
    'records-undone-partly': later('undonePartly'),
    'records-kept': later('nothingDeleted'),
    'records-gone': later('recordsGone'),
    'records-restored': later('restoredWithNewIds'),
    'record-merged': { text: later('merged'), undo: unmergeButton },
    'record-unmerged': later('unmerged'),
    'action-done': later('actionCompleted'),
    'job-canceled': later('willBeCanceled'),
    'record-returned': later('restored'),
    'records-returned': later('restored'),
    'record-purged': later('deletedPermanently'),
    'records-imported': { text: later('imported'), undo: undoButton },
    'import-undone': later('importUndone'),
    'import-undone-partly': later('importUndonePartly'),
    'note-added': later('noteAdded'),
    'note-saved': later('noteSaved'),
    'note-deleted': later('noteDeleted'),
    'view-saved': later('viewSaved'),
    'view-deleted': later('viewDeleted'),
  });

  const handlerFor = (handle: DataHandler) => async (request: FastifyRequest, reply: FastifyReply) => {
    const { member, banner } = await viewerOf(database, request, reply);
    const { slug, organization, grants } = member.membership;
    const language = languageOf(request);
    const tables = tablesOf(database);
    const showsEmails = allows(grants, membersObject, 'list');
    const { resource: name } = request.params as { resource: string };
    const views = await resourceViewsOf({ database, resources }, member.membership);
    const titles = titlesOf(views, localeOf(request));
    const resource = views.find((candidate) => candidate.name === name);
    if (resource === undefined) throw errors.notFound();
    const base = `/setup/o/${slug}/data`;
    const path = `${base}/${name}`;
    const frame = { language, org: member.membership, section: `data/${name}`, path, ...banner };
    return handle({
      ...{ request, reply, database, member, resource, path, titles },
      isViewingAs: banner !== undefined,
      hasNotes: config.notes,
      calls: callsOf(request, member),
      language,
      t: recordsTexts(language),
      references: referencesOf(views, titles, { base, language }),
      listMembers: async () => {
        const members = await listMembers(tables, organization);
        // Members without a name are listed by their email address, so the order would reveal it.
        return showsEmails
          ? members
          : members.map(withoutEmail).toSorted((a, b) => a.name.localeCompare(b.name));
      },
      findPeople: async (ids) => {
        const people = await findPeople(tables, ids);
        return showsEmails ? people : new Map([...people].map(([id, person]) => [id, withoutEmail(person)]));
      },
      sendPage: (page, more = {}) => show(request, reply, page, { ...frame, ...more }),
    });
  };

  searchPage(app, { resources, database }, callsOf);
  stopViewing(app);

  const assertMember = async (request: FastifyRequest) => {
    memberOf(app, request);
  };
  const url = (path: string) => `/o/:org/data/:resource${path}`;
  const routesOn = (scope: FastifyInstance): DataRoutes => ({
    get: (path, handle, config = {}) =>
      scope.get(url(path), { preHandler: signedIn(app), config }, handlerFor(handle)),
    post: (path, handle, options = {}) =>
      scope.post(
        url(path),
        // Checked before the body is read, because an unauthenticated body could be large.
        { onRequest: [signedIn(app), assertMember], preHandler: app.csrfProtection, ...options },
        handlerFor(handle),
      ),
  });
  // The import needs a separate scope, because it replaces the body parsers.
  app.register(async (scope) => importPage(scope, routesOn(scope), database));
  app.register(async (scope) => {
    const routes = routesOn(scope);
    exportPage(routes);
    routes.get('', async (context) => {
      const { request, reply, path, sendPage } = context;
      const entered = addedFilter(request);
      const converted = entered && (await convertFilter(context, entered));
      if (converted !== undefined && 'filter' in converted)
        return reply.redirect(filterLink(request, path, converted.filter), 303);
      const parameters = new URLSearchParams(request.url.split('?')[1] ?? '');
      const chosen = chosenOrder(path, parameters) ?? rememberColumns(context, parameters);
      if (chosen !== undefined) return reply.redirect(chosen, 303);
      if (parameters.has('set')) return reply.redirect(chosenFilters(path, parameters), 303);
      const views = await usableViews(context);
      const defaultView = views.find(({ isDefault }) => isDefault);
      if (defaultView !== undefined && [...parameters.keys()].every((name) => name === 'done')) {
        const done = parameters.get('done');
        return reply.redirect(
          `${viewUrl(context, defaultView)}${done === null ? '' : `&${new URLSearchParams({ done })}`}`,
          303,
        );
      }
      const page = await listPage({
        ...{ ...context, parameters: usedParameters(context.resource, parameters), views },
        locale: localeOf(request),
        rejected: converted,
      });
      if (page.problem !== undefined || converted !== undefined) reply.code(400);
      return sendPage({ kind: 'list', ...page });
    });
    viewPages(routes);
    editPages(routes);
    reassignPages(routes, database);
    boardPages(routes);
    bulkEditPages(routes);
    deletePages(routes);
    mergePages(routes);
    actionPages(routes);
    jobPages(routes);
    trashPages(routes);
    notePages(routes);
    recordPages(routes);
  });
}
