import { relative } from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { projectFolder } from '../../../engine/config/index.ts';
import type { Membership } from '../../access/identity/index.ts';
import { membershipsOf } from './access.ts';
import { navigationOf } from './frame.ts';
import { type AnyPage, type Input, type ListView, viewOf } from './views.ts';

/** Data for a view. */
export type ViewData = Readonly<Record<string, unknown>>;

/** An action's subject: its name is shown in the message, and its ID identifies the row to highlight. */
export interface Subject {
  readonly name?: string;
  readonly id?: string;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Messages shown after an action, keyed by `?done=` code. `{}` is replaced with the subject's name. */
    doneTexts: Map<string, string>;
  }
}

/** Adds messages for `?done=`. */
export function addDoneTexts(app: FastifyInstance, texts: Readonly<Record<string, string>>): void {
  for (const [code, text] of Object.entries(texts)) app.doneTexts.set(code, text);
}

/** Cookie that carries an action's subject to the next page, because names must not appear in URLs. */
const subjectCookie = 'crm_done';

/** Redirects to a page with the message about an action. @param url includes any list filters */
export function redirectDone(
  request: FastifyRequest,
  reply: FastifyReply,
  url: string,
  code: string,
  subject: Subject = {},
): FastifyReply {
  const { site } = request.server;
  if (subject.name !== undefined || subject.id !== undefined) {
    reply.setCookie(subjectCookie, Buffer.from(JSON.stringify(subject)).toString('base64url'), {
      ...site.cookie(request, '/setup'),
      maxAge: 60,
    });
  }
  return reply.redirect(`${url}${url.includes('?') ? '&' : '?'}done=${code}`, 303);
}

/** Returns the last action's subject, and clears it. */
function consumeSubject(request: FastifyRequest, reply: FastifyReply): Subject {
  const text = request.cookies[subjectCookie];
  if (text === undefined) return {};
  reply.clearCookie(subjectCookie, { path: '/setup' });
  try {
    const { name, id } = JSON.parse(Buffer.from(text, 'base64url').toString()) as Record<string, unknown>;
    return { ...(typeof name === 'string' && { name }), ...(typeof id === 'string' && { id }) };
  } catch {
    return {};
  }
}

/** Returns the query string in a form, or an empty string if it is invalid. */
export const returnQuery = (text: unknown): string =>
  typeof text === 'string' && /^[\w\-.~%=&+*!'(),:@[\]]{0,4000}$/.test(text) ? text : '';

/** Returns the request's query string without the parameters that apply to only one page view. */
function persistentQuery({ url }: FastifyRequest): string {
  const parameters = new URLSearchParams(url.split('?')[1] ?? '');
  for (const name of ['done', 'at']) parameters.delete(name);
  return returnQuery(String(parameters));
}

/** Renders a view with the data common to all pages. @param view the view's path */
export async function render(
  request: FastifyRequest,
  reply: FastifyReply,
  view: string,
  data: ViewData & { readonly title: string },
): Promise<string> {
  const { server: app, person } = request;
  // An error page before login has no form, and a new cookie would invalidate the forms in other tabs.
  const csrf =
    data.hasForms === false && person === null
      ? undefined
      : reply.generateCsrf({ userInfo: request.formOwner, secure: app.site.isSecure(request) });
  const org = data.org as Membership | undefined;
  const { done } = request.query as { done?: unknown };
  const text = typeof done === 'string' ? app.doneTexts.get(done) : undefined;
  const { name, id } = text === undefined ? {} : consumeSubject(request, reply);
  reply.header('content-type', 'text/html; charset=utf-8');
  return reply.viewAsync(relative(projectFolder, view), {
    csrf,
    // The name is user input, so the view escapes it separately from the message.
    notice: text && {
      before: text.split('{}')[0],
      name: text.includes('{}') ? (name ?? 'It') : '',
      after: text.split('{}')[1],
    },
    marked: id,
    isReadOnly: app.isReadOnly?.(),
    user: person?.session.user,
    path: request.url.split('?')[0],
    at: persistentQuery(request),
    ...navigationOf(
      app,
      person === null ? [] : membershipsOf(person),
      org,
      data.section as string | undefined,
    ),
    ...data,
  });
}

/** Sends a page of any kind. */
export function show(
  request: FastifyRequest,
  reply: FastifyReply,
  { kind, ...page }: AnyPage & { readonly title: string },
  more: ViewData = {},
): Promise<string> {
  if (page.refreshSeconds !== undefined) reply.header('refresh', String(page.refreshSeconds));
  return render(request, reply, viewOf(kind), {
    ...page,
    ...dataFor({ kind, ...page } as AnyPage, request),
    ...more,
  });
}

/** Returns data for templates in addition to the page's own data. */
function dataFor(page: AnyPage, request: FastifyRequest): ViewData {
  if (page.kind === 'list') return listData(page, request);
  if (page.kind === 'form' || page.kind === 'confirm') return { inputs: inputData(page.inputs ?? []) };
  return {};
}

/** Focuses the first invalid field or, if all fields are valid, the field that requests the focus. */
function inputData(inputs: readonly Input[]) {
  const first = inputs.find(({ error }) => error !== undefined);
  return inputs.map((input) => ({
    ...input,
    hasNotes: input.help !== undefined || input.error !== undefined,
    focus: first === undefined ? input.focus : input === first,
  }));
}

/** Returns a list's data for the template, in addition to the list's own data. */
export function listData({ columns, rows }: ListView, request: FastifyRequest): ViewData {
  // After an action, users return to the page on which they started it.
  const at = persistentQuery(request);
  const withReturnQuery = (href: string) =>
    at === '' ? href : `${href}${href.includes('?') ? '&' : '?'}at=${encodeURIComponent(at)}`;
  return {
    hasActions: rows.some(({ links = [], buttons = [] }) => links.length + buttons.length > 0),
    rows: rows.map(({ id, label, cells, links = [], buttons = [] }) => ({
      id,
      links: links.map((link) => ({ ...link, href: withReturnQuery(link.href) })),
      buttons,
      label:
        links.length + buttons.length > 0 ? (label ?? cells[0]?.text ?? cells[0]?.code ?? id) : undefined,
      cells: cells.map((cell, index) => ({
        ...cell,
        column: columns[index]?.title,
        numeric: columns[index]?.numeric,
      })),
    })),
  };
}
