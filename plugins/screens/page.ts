import { STATUS_CODES } from 'node:http';
import { join, relative } from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { projectFolder } from '../../engine/config/index.ts';
import type { Database } from '../../engine/database/index.ts';
import type { Actor } from '../../engine/effects/index.ts';
import { HttpError, UserError } from '../../engine/errors.ts';
import { failureOf, sendError } from '../../engine/http/index.ts';
import { administrator } from '../../engine/records/index.ts';
import { type Tables, transaction } from '../../engine/tables/index.ts';
import type { Membership, Person } from '../identity/index.ts';
import { type Form, field } from './form.ts';
import { claimForm } from './sent-forms.ts';

/** A request by an administrator of an organization. */
export interface Admin {
  readonly person: Person;
  readonly membership: Membership;
  readonly actor: Actor;
}

/** A form sent by an administrator. */
export interface Sender extends Admin {
  /** Runs the work of the form in a transaction; for actions in `once` it claims the form first. */
  readonly transact: <T>(work: (tables: Tables) => Promise<T>) => Promise<T>;
}

/** The data of a view. */
export type Shown = Readonly<Record<string, unknown>>;

/** The result of an action: a redirect to the page with a message, or the page with data that is shown once. */
export type Outcome = { readonly done: string } | { readonly shown: Shown };

/** A page of an organization: its data, and its forms by the last part of their address. */
export interface Section {
  readonly name: string;
  readonly title: string;
  /** Its view, an absolute path; see {@link viewsIn}. */
  readonly view: string;
  /** Messages after an action, by the code in `?done=`: the text never comes from the URL. */
  readonly done?: Readonly<Record<string, string>>;
  readonly load: (admin: Admin, request: FastifyRequest) => Promise<Shown>;
  /** Actions that run once for each form, even if it is sent twice by a reload, a double click or to two nodes. */
  readonly once?: readonly string[];
  readonly actions: Readonly<
    Record<string, (sender: Sender, form: Form, request: FastifyRequest) => Promise<Outcome>>
  >;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The pages of an organization, in the order of the navigation. */
    setupSections: { readonly name: string; readonly title: string }[];
    /** Messages after an action, by the code in `?done=`. */
    doneTexts: Map<string, string>;
  }
  interface FastifyRequest {
    /** The owner of a form's token: the session, or `nobody` before login. */
    formOwner: string;
    /** The person who is logged in; null before login. */
    person: Person | null;
  }
}

/** Redirects people who are not logged in to the login page, and back afterwards. */
export const signedIn =
  (app: FastifyInstance) =>
  async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
    try {
      request.person = await app.identify(request);
      request.formOwner = request.person.session.id;
      return undefined;
    } catch (error) {
      if (!(error instanceof HttpError) || error.status !== 401) throw error;
      const next = request.method === 'GET' ? `?next=${encodeURIComponent(request.url)}` : '';
      return reply.redirect(`/setup/login${next}`, 303);
    }
  };

/** The person after {@link signedIn}. */
export function personOf({ person }: FastifyRequest): Person {
  if (person === null) throw new Error('a page without signedIn');
  return person;
}

/** The organizations that a person administers. */
export const administrated = ({ session }: Person): Membership[] =>
  [...session.memberships.values()].filter((membership) => membership.profile === administrator);

/** @throws HttpError 403, the same for an unknown organization and one that the person does not administer */
function adminOf(app: FastifyInstance, request: FastifyRequest): Admin {
  const person = personOf(request);
  const { org } = request.params as { org: string };
  const membership = administrated(person).find((each) => each.slug === org);
  if (membership === undefined)
    throw new HttpError(403, 'forbidden', 'Only administrators of this organization come here.');
  return { person, membership, actor: app.actor(request, person.session.user) };
}

/** The views of a module: handlebars files of its folder. @returns the path of a view by its name */
export const viewsIn =
  (folder: string) =>
  (name: string): string =>
    join(folder, `${name}.hbs`);
const failureView = viewsIn(import.meta.dirname)('failure');

/** Adds messages for `?done=`. */
export function addDoneTexts(app: FastifyInstance, texts: Readonly<Record<string, string>>): void {
  for (const [code, text] of Object.entries(texts)) app.doneTexts.set(code, text);
}

/** Renders a page with the data that every page has. @param view the path of a view, of {@link viewsIn} */
export async function render(
  request: FastifyRequest,
  reply: FastifyReply,
  view: string,
  data: Readonly<Record<string, unknown>> & { readonly title: string },
): Promise<string> {
  // A failure before login has no form; a cookie set for it would void the forms in other tabs.
  const hasForm = view !== failureView || request.person !== null;
  const csrf = hasForm
    ? reply.generateCsrf({ userInfo: request.formOwner, secure: request.server.site.isSecure(request) })
    : undefined;
  const organizations = request.person === null ? [] : administrated(request.person);
  const org = data.org as Membership | undefined;
  const { done } = request.query as { done?: unknown };
  const notice = typeof done === 'string' ? request.server.doneTexts.get(done) : undefined;
  reply.header('content-type', 'text/html; charset=utf-8');
  return reply.viewAsync(relative(projectFolder, view), {
    csrf,
    notice,
    user: request.person?.session.user,
    others: organizations.filter((each) => each.slug !== org?.slug),
    ...data,
  });
}

/** Registers a section: its page, and its forms, each with a token that belongs to the session. */
export function section(
  app: FastifyInstance,
  database: Database,
  { name, title, view, done = {}, load, once = [], actions }: Section,
): void {
  app.setupSections.push({ name, title });
  addDoneTexts(app, done);
  const base = `/o/:org/${name}`;
  const show = async (admin: Admin, request: FastifyRequest, reply: FastifyReply, more: Shown) =>
    render(request, reply, view, {
      title,
      org: admin.membership,
      section: name,
      sections: app.setupSections.map((each) => ({ ...each, current: each.name === name })),
      ...(await load(admin, request)),
      ...more,
    });

  app.get(base, { preHandler: signedIn(app) }, async (request, reply) =>
    show(adminOf(app, request), request, reply, {}),
  );
  for (const [action, act] of Object.entries(actions)) {
    const preHandler = [signedIn(app), app.csrfProtection];
    app.post(`${base}/${action}`, { preHandler }, async (request, reply) => {
      const admin = adminOf(app, request);
      const form = (request.body ?? {}) as Form;
      try {
        // All forms of a page share one token, so the action and the id are part of the form's identity.
        const shown = `${field(form, '_csrf')} ${name}/${action} ${field(form, 'id')}`;
        const transact: Sender['transact'] = (work) =>
          transaction(database, async (tables) => {
            if (once.includes(action)) await claimForm(tables, shown);
            return work(tables);
          });
        const outcome = await act({ ...admin, transact }, form, request);
        if ('shown' in outcome) return await show(admin, request, reply, outcome.shown);
        return await reply.redirect(`/setup/o/${admin.membership.slug}/${name}?done=${outcome.done}`, 303);
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        reply.code(400);
        return show(admin, request, reply, { problem: error.message, form });
      }
    });
    redirectGetToForm(
      app,
      `${base}/${action}`,
      ({ org }) => `/setup/o/${encodeURIComponent(String(org))}/${name}`,
    );
  }
}

/** Redirects a GET of a form's address, which a reload of its response may cause, to the page of the form. */
export function redirectGetToForm(
  app: FastifyInstance,
  url: string,
  page: (params: Readonly<Record<string, unknown>>) => string,
): void {
  app.get(url, async (request, reply) =>
    reply.redirect(page(request.params as Record<string, unknown>), 303),
  );
}

const failureTexts: Readonly<Record<number, string>> = {
  403: 'This form is no longer valid, or came from elsewhere. Go back, reload the page and try again.',
  404: 'There is no such page.',
  413: 'The form is too large.',
};

/** Sends an error page with the error's status; works without a database. */
export async function sendFailure(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  // While the process drains, requests are refused before a page's headers are set.
  if (!reply.hasHeader('content-security-policy')) return sendError(error, request, reply);
  const { status, message, extra } = failureOf(error, request);
  // Our messages are for people; the framework's are for programs.
  const text = error instanceof HttpError && status !== 404 ? message : failureTexts[status];
  reply.code(status).headers(extra.headers ?? {});
  return render(request, reply, failureView, {
    title: STATUS_CODES[status] ?? 'Failure',
    message: text ?? 'That did not work. Try again later.',
    requestId: status >= 500 ? request.id : undefined,
  });
}
