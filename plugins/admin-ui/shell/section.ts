import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Database } from '../../../engine/database/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { type Tables, transaction } from '../../../engine/tables/index.ts';
import { adminOf, type CurrentMember, signedIn } from './access.ts';
import { type Language, type TextIn, textIn } from './catalogue.ts';
import { messageIn } from './errors/error-message.ts';
import { claimForm, type Form, field } from './form.ts';
import { type Placement, setupGroups } from './frame.ts';
import { iconNames } from './icon.ts';
import { addedFilter, filterLink } from './listing.ts';
import { languageOf } from './locale.ts';
import { addDoneTexts, redirectDone, returnQuery, type Subject, show, type ViewData } from './render.ts';
import type { AnyPage, ListView } from './views.ts';
import { sendWholeValue } from './whole-value.ts';

/** A form submitted by an administrator. */
export interface SubmittedForm extends CurrentMember {
  /** Runs a function in a transaction. For actions in `once`, the form is claimed first. */
  readonly transact: <T>(work: (tables: Tables) => Promise<T>) => Promise<T>;
}

/** A cookie that is sent to the pages under a path until the browser session ends. */
interface OutcomeCookie {
  readonly name: string;
  readonly value: string;
  readonly path: string;
}

/**
 * The result of an action: a redirect to a page, a redirect to the list with a message, or the list with data
 * that is shown only once.
 */
export type ActionOutcome =
  | { readonly to: string; readonly cookie?: OutcomeCookie }
  | ({ readonly done: string } & Subject)
  | { readonly view: ViewData };

/** A page's input: its query parameters, or the form submitted to it. */
interface PageInput {
  readonly form: Form;
  readonly request: FastifyRequest;
  /** The URL to return to: the list's URL with its previous query string. */
  readonly back: string;
}

/**
 * A section of an organization's setup: its list, its actions keyed by the last segment of their URL, and
 * their pages.
 */
export interface Section extends Placement {
  readonly name: string;
  readonly title: string | TextIn;
  /** Messages shown after an action, keyed by the code in `?done=`. The message never comes from the URL. */
  readonly done?: Readonly<Record<string, string | TextIn>>;
  readonly load: (admin: CurrentMember, request: FastifyRequest, language: Language) => Promise<ListView>;
  /** Whether all of its texts are translated. Otherwise, its pages are in English. */
  readonly isTranslated?: true;
  /**
   * Pages, keyed by the last segment of their URL. Each is the form or confirmation page for the action with
   * that name, or a record's page.
   */
  readonly pages?: Readonly<
    Record<string, (admin: CurrentMember, input: PageInput) => Promise<AnyPage & { title: string }>>
  >;
  /**
   * Full values that pages truncate, which are sent as plain text. Keyed by the last segment of their URL.
   * They throw a UserError if their row does not exist.
   */
  readonly wholeValues?: Readonly<
    Record<string, (admin: CurrentMember, input: Pick<PageInput, 'form' | 'request'>) => Promise<string>>
  >;
  /** Actions that run only once per form, even if the form is resubmitted or sent to two nodes. */
  readonly once?: readonly string[];
  readonly actions: Readonly<
    Record<string, (sender: SubmittedForm, form: Form, request: FastifyRequest) => Promise<ActionOutcome>>
  >;
}

/** Checks the parts of a section that the compiler does not check in JavaScript. @throws UserError if one is not valid */
function assertPlacement(
  { setupSections }: FastifyInstance,
  { name, group, icon }: Pick<Section, 'name' | 'group' | 'icon'>,
): void {
  if (setupSections.some((existing) => existing.name === name))
    throw new UserError(
      `the setup already has the page "${name}". Choose another name for the page of the module.`,
    );
  if (group !== undefined && !setupGroups.includes(group))
    throw new UserError(`page ${name}: group must be one of ${setupGroups.join(', ')}`);
  if (icon !== undefined && !iconNames.includes(icon))
    throw new UserError(`page ${name}: icon must be one of ${iconNames.join(', ')}`);
}

/** Registers a section with its pages and forms. Each form has a token bound to the session. */
export function section(
  app: FastifyInstance,
  database: Database,
  {
    name,
    title,
    group,
    icon,
    isListed,
    isTranslated,
    done = {},
    load,
    pages = {},
    wholeValues = {},
    once = [],
    actions,
  }: Section,
): void {
  assertPlacement(app, { name, group, icon });
  app.setupSections.push({ name, title, group, icon, isListed });
  addDoneTexts(app, done);
  const path = `/o/:org/${name}`;
  const baseOf = ({ membership }: CurrentMember) => `/setup/o/${membership.slug}/${name}`;
  /** Returns the URL of the page from which a form was opened: a record's page, or the list. */
  const backOf = (admin: CurrentMember, form: Form) => {
    const [at, from] = [returnQuery(field(form, 'at')), field(form, 'from')];
    const page = Object.hasOwn(pages, from) ? `/${from}` : '';
    return `${baseOf(admin)}${page}${at === '' ? '' : `?${at}`}`;
  };
  const languageFor = (request: FastifyRequest) => (isTranslated ? languageOf(request) : 'en');
  const frameOf = ({ membership: org }: CurrentMember, request: FastifyRequest) => ({
    language: languageFor(request),
    org,
    section: name,
  });

  const showList = async (
    admin: CurrentMember,
    request: FastifyRequest,
    reply: FastifyReply,
    more: ViewData,
  ) => {
    const page = await load(admin, request, languageFor(request));
    // `problem` reports an invalid query parameter.
    if (page.problem !== undefined) reply.code(400);
    return show(
      request,
      reply,
      { kind: 'list', ...page, title: textIn(title, languageFor(request)) },
      { ...frameOf(admin, request), path: baseOf(admin), ...more },
    );
  };
  const showPage = async (
    admin: CurrentMember,
    page: string,
    [request, reply]: readonly [FastifyRequest, FastifyReply],
    form: Form,
    more: ViewData = {},
  ) => {
    const back = backOf(admin, form);
    const content = await pages[page]?.(admin, { form, request, back });
    if (content === undefined) throw new Error(`${name} has no page ${page}`);
    return show(request, reply, content, {
      above: content.above ?? { label: textIn(title, languageFor(request)), href: back },
      ...frameOf(admin, request),
      // The buttons on a record's page lead back to it.
      ...(content.kind === 'record' ? { from: page } : { at: returnQuery(field(form, 'at')) }),
      ...more,
    });
  };

  app.get(path, { preHandler: signedIn(app) }, async (request, reply) => {
    const admin = adminOf(app, request);
    const filter = addedFilter(request);
    return filter === undefined
      ? showList(admin, request, reply, {})
      : reply.redirect(filterLink(request, baseOf(admin), filter), 303);
  });
  /** Serves something about a row. If the row does not exist, the list is shown with the message. */
  const serve = (
    name: string,
    respond: (admin: CurrentMember, request: FastifyRequest, reply: FastifyReply) => Promise<unknown>,
  ) =>
    app.get(`${path}/${name}`, { preHandler: signedIn(app) }, async (request, reply) => {
      const admin = adminOf(app, request);
      try {
        return await respond(admin, request, reply);
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        reply.code(404);
        return showList(admin, request, reply, { problem: messageIn(error, languageFor(request)) });
      }
    });
  for (const page of Object.keys(pages))
    serve(page, (admin, request, reply) => showPage(admin, page, [request, reply], request.query as Form));
  for (const [name, value] of Object.entries(wholeValues))
    serve(name, async (admin, request, reply) =>
      sendWholeValue(reply, await value(admin, { form: request.query as Form, request })),
    );
  for (const [action, act] of Object.entries(actions)) {
    const preHandler = [signedIn(app), app.csrfProtection];
    app.post(`${path}/${action}`, { preHandler }, async (request, reply) => {
      const admin = adminOf(app, request);
      const form = (request.body ?? {}) as Form;
      try {
        // All forms on a page share one token, so the action and the ID are part of the form's identity.
        const formIdentity = `${field(form, '_csrf')} ${name}/${action} ${field(form, 'id')}`;
        const transact: SubmittedForm['transact'] = (work) =>
          transaction(database, async (tables) => {
            if (once.includes(action)) await claimForm(tables, formIdentity);
            return work(tables);
          });
        const outcome = await act({ ...admin, transact }, form, request);
        if ('to' in outcome) {
          const { to, cookie } = outcome;
          if (cookie) reply.setCookie(cookie.name, cookie.value, app.site.cookie(request, cookie.path));
          return await reply.redirect(to, 303);
        }
        if ('view' in outcome) return await showList(admin, request, reply, outcome.view);
        return await redirectDone(request, reply, backOf(admin, form), outcome.done, outcome);
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        reply.code(400);
        const problem = { problem: messageIn(error, languageFor(request)) };
        if (!Object.hasOwn(pages, action)) return showList(admin, request, reply, problem);
        try {
          return await showPage(admin, action, [request, reply], form, problem);
        } catch (cause) {
          // The page's subject no longer exists.
          if (!(cause instanceof UserError)) throw cause;
          return showList(admin, request, reply, problem);
        }
      }
    });
    if (Object.hasOwn(pages, action)) continue;
    redirectGetToForm(
      app,
      `${path}/${action}`,
      ({ org }) => `/setup/o/${encodeURIComponent(String(org))}/${name}`,
    );
  }
}

/** Redirects a GET request for a form's URL, for example after a reload, to the form's page. */
export function redirectGetToForm(
  app: FastifyInstance,
  url: string,
  page: (params: Readonly<Record<string, unknown>>) => string,
): void {
  app.get(url, async (request, reply) =>
    reply.redirect(page(request.params as Record<string, unknown>), 303),
  );
}
