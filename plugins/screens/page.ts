import { STATUS_CODES } from 'node:http';
import { join, relative } from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { projectFolder } from '../../engine/config/index.ts';
import type { Database } from '../../engine/database/index.ts';
import type { Actor } from '../../engine/effects/index.ts';
import { HttpError, UserError } from '../../engine/errors.ts';
import { isRowId } from '../../engine/fields/index.ts';
import { failureOf, sendError } from '../../engine/http/index.ts';
import { administrator } from '../../engine/records/index.ts';
import { type Tables, transaction } from '../../engine/tables/index.ts';
import type { Membership, Person } from '../identity/index.ts';
import { claimForm } from './sent-forms.ts';

/** A form as it was sent. */
export type Form = Readonly<Record<string, string | readonly string[] | undefined>>;

/** An administrator of one organization, at work. */
export interface Admin {
  readonly person: Person;
  readonly membership: Membership;
  readonly actor: Actor;
}

/** An administrator who has sent a form. */
export interface Sender extends Admin {
  /** Does what the form is for, all or nothing; where that must happen once, it claims the form first. */
  readonly transact: <T>(work: (tables: Tables) => Promise<T>) => Promise<T>;
}

/** What a view shows, by name. */
export type Shown = Readonly<Record<string, unknown>>;

/** What an action of a page leads to: the page again with a note, or the page now with something shown once. */
export type Outcome = { readonly done: string } | { readonly shown: Shown };

/** A page of an organization: what it shows, and the forms on it by the last part of their address. */
export interface Section {
  readonly name: string;
  readonly title: string;
  /** Its view, an absolute path; see {@link viewsIn}. */
  readonly view: string;
  /** What the page says after an action, by the code in `?done=`: texts never come from an address. */
  readonly done?: Readonly<Record<string, string>>;
  readonly load: (admin: Admin, request: FastifyRequest) => Promise<Shown>;
  /** Actions that make something: a form sent twice, by a reload, a double click or to two nodes, makes one thing. */
  readonly once?: readonly string[];
  readonly actions: Readonly<
    Record<string, (sender: Sender, form: Form, request: FastifyRequest) => Promise<Outcome>>
  >;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The pages of an organization, in the order of the navigation. */
    setupSections: { readonly name: string; readonly title: string }[];
    /** What pages say after something was done, by the code in `?done=`. */
    doneTexts: Map<string, string>;
  }
  interface FastifyRequest {
    /** To whom a form belongs: the session, or `nobody` before login. */
    formOwner: string;
    /** Who looks at the page; null before login. */
    person: Person | null;
  }
}

/** One value of a form field; the first where there are several. */
export const field = (form: Form, name: string): string => {
  const value = form[name];
  return (typeof value === 'string' ? value : value?.[0]) ?? '';
};

/** Every value of a form field. */
export const fields = (form: Form, name: string): readonly string[] => {
  const value = form[name];
  return value === undefined ? [] : typeof value === 'string' ? [value] : value;
};

/** An id in a form. @throws UserError where it is none */
export function idField(form: Form, name: string): string {
  const id = field(form, name);
  if (!isRowId(id)) throw new UserError('that does not exist any more');
  return id;
}

/** A path of this origin to go on to, or /setup: what else an address may name, nobody is sent there. */
export function safeNext(next: unknown): string {
  return typeof next === 'string' && /^\/setup(?:[/?][\w\-./?=&%]*)?$/.test(next) && !next.includes('..')
    ? next
    : '/setup';
}

/** Lets only people pass who are logged in; others go to the login page and come back. */
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

/** The person that {@link signedIn} let pass. */
export function personOf({ person }: FastifyRequest): Person {
  if (person === null) throw new Error('a page without signedIn');
  return person;
}

/** The organizations that a person administrates. */
export const administrated = ({ session }: Person): Membership[] =>
  [...session.memberships.values()].filter((membership) => membership.profile === administrator);

/** @throws HttpError 403, the same for an unknown organization and one that the person does not administrate */
function adminOf(app: FastifyInstance, request: FastifyRequest): Admin {
  const person = personOf(request);
  const { org } = request.params as { org: string };
  const membership = administrated(person).find((each) => each.slug === org);
  if (membership === undefined)
    throw new HttpError(403, 'Only administrators of this organization come here.');
  return { person, membership, actor: app.actor(request, person.session.user.id) };
}

/** The views beside a module: handlebars files of its folder. @returns the path of a view by its name */
export const viewsIn =
  (folder: string) =>
  (name: string): string =>
    join(folder, `${name}.hbs`);
const failureView = viewsIn(import.meta.dirname)('failure');

/** Adds what pages may say after something was done. */
export function addDoneTexts(app: FastifyInstance, texts: Readonly<Record<string, string>>): void {
  for (const [code, text] of Object.entries(texts)) app.doneTexts.set(code, text);
}

/** Renders a page with what every page has. @param view the path of a view, of {@link viewsIn} */
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
  const note = typeof done === 'string' ? request.server.doneTexts.get(done) : undefined;
  reply.header('content-type', 'text/html; charset=utf-8');
  return reply.viewAsync(relative(projectFolder, view), {
    csrf,
    note,
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
        // A page has one token for all of its forms: the form is told by what it does, and to what.
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

/** The address of a form's response stands in the browser; whoever opens it again gets the page of the form. */
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

/** A failure as a page, with the status it has, for which no database is needed. */
export async function sendFailure(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  // While the process drains, requests are refused before a page's headers are there.
  if (!reply.hasHeader('content-security-policy')) return sendError(error, request, reply);
  const { status, message, extra } = failureOf(error, request);
  // Ours say what is wrong; the framework's are for programs.
  const text = error instanceof HttpError && status !== 404 ? message : failureTexts[status];
  reply.code(status).headers(extra.headers ?? {});
  return render(request, reply, failureView, {
    title: STATUS_CODES[status] ?? 'Failure',
    message: text ?? 'That did not work. Try again later.',
    requestId: status >= 500 ? request.id : undefined,
  });
}
