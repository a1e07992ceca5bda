import { relative } from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { projectFolder } from '../../../engine/config/index.ts';
import type { Membership } from '../../access/identity/index.ts';
import { membershipsOf } from './access.ts';
import { navigationOf } from './frame.ts';
import { type AnyPage, type Input, type ListView, viewOf } from './views.ts';

/** The data of a view. */
export type ViewData = Readonly<Record<string, unknown>>;

/** What an action was about: its name for the message, its id to mark it. */
export interface Subject {
  readonly name?: string;
  readonly id?: string;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Messages after an action, by the code in `?done=`; `{}` stands for the name of what it was about. */
    doneTexts: Map<string, string>;
  }
}

/** Adds messages for `?done=`. */
export function addDoneTexts(app: FastifyInstance, texts: Readonly<Record<string, string>>): void {
  for (const [code, text] of Object.entries(texts)) app.doneTexts.set(code, text);
}

/** Carries what an action was about to the next page: a name is not to stand in an address. */
const subjectCookie = 'crm_done';

/** Redirects after an action, to a page with its message. @param place an address, with the filters that were in force */
export function redirectDone(
  request: FastifyRequest,
  reply: FastifyReply,
  place: string,
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
  return reply.redirect(`${place}${place.includes('?') ? '&' : '?'}done=${code}`, 303);
}

/** What the last action was about, once. */
function takeSubject(request: FastifyRequest, reply: FastifyReply): Subject {
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

/** A query string that an action returns to: only what an address may hold. */
export const returnQuery = (text: unknown): string =>
  typeof text === 'string' && /^[\w\-.~%=&+*!'(),:@[\]]{0,4000}$/.test(text) ? text : '';

/** The query string of a request, without what belongs to one showing of its page. */
function placeOf({ url }: FastifyRequest): string {
  const parameters = new URLSearchParams(url.split('?')[1] ?? '');
  for (const name of ['done', 'at']) parameters.delete(name);
  return returnQuery(String(parameters));
}

/** Renders a view with the data that every page has. @param view its path */
export async function render(
  request: FastifyRequest,
  reply: FastifyReply,
  view: string,
  data: ViewData & { readonly title: string },
): Promise<string> {
  const { server: app, person } = request;
  // A failure before login has no form; a cookie set for it would void the forms in other tabs.
  const csrf =
    data.hasForms === false && person === null
      ? undefined
      : reply.generateCsrf({ userInfo: request.formOwner, secure: app.site.isSecure(request) });
  const org = data.org as Membership | undefined;
  const { done } = request.query as { done?: unknown };
  const text = typeof done === 'string' ? app.doneTexts.get(done) : undefined;
  const { name, id } = text === undefined ? {} : takeSubject(request, reply);
  reply.header('content-type', 'text/html; charset=utf-8');
  return reply.viewAsync(relative(projectFolder, view), {
    csrf,
    // The name alone is somebody's words.
    notice: text && {
      before: text.split('{}')[0],
      name: text.includes('{}') ? (name ?? 'It') : '',
      after: text.split('{}')[1],
    },
    marked: id,
    isReadOnly: app.isReadOnly?.(),
    user: person?.session.user,
    path: request.url.split('?')[0],
    at: placeOf(request),
    ...navigationOf(
      app,
      person === null ? [] : membershipsOf(person),
      org,
      data.section as string | undefined,
    ),
    ...data,
  });
}

/** Shows a page of one of the five kinds. */
export function show(
  request: FastifyRequest,
  reply: FastifyReply,
  { kind, ...page }: AnyPage & { readonly title: string },
  more: ViewData = {},
): Promise<string> {
  if (page.refreshSeconds !== undefined) reply.header('refresh', String(page.refreshSeconds));
  return render(request, reply, viewOf(kind), {
    ...page,
    ...prepared({ kind, ...page } as AnyPage, request),
    ...more,
  });
}

/** What templates need besides the data of a page. */
function prepared(page: AnyPage, request: FastifyRequest): ViewData {
  if (page.kind === 'list') return preparedList(page, request);
  if (page.kind === 'form' || page.kind === 'confirm') return { inputs: preparedInputs(page.inputs ?? []) };
  return {};
}

/** The first field that is wrong gets the focus, else the one that asks for it. */
function preparedInputs(inputs: readonly Input[]) {
  const first = inputs.find(({ error }) => error !== undefined);
  return inputs.map((input) => ({
    ...input,
    hasNotes: input.help !== undefined || input.error !== undefined,
    focus: first === undefined ? input.focus : input === first,
  }));
}

function preparedList({ columns, rows }: ListView, request: FastifyRequest): ViewData {
  // From the page of an action people come back to where they were.
  const at = placeOf(request);
  const returning = (href: string) =>
    at === '' ? href : `${href}${href.includes('?') ? '&' : '?'}at=${encodeURIComponent(at)}`;
  return {
    hasActions: rows.some(({ links = [], buttons = [] }) => links.length + buttons.length > 0),
    rows: rows.map(({ id, cells, links = [], buttons = [] }) => ({
      id,
      links: links.map((link) => ({ ...link, href: returning(link.href) })),
      buttons,
      label: links.length + buttons.length > 0 ? (cells[0]?.text ?? cells[0]?.code ?? id) : undefined,
      cells: cells.map((cell, index) => ({
        ...cell,
        column: columns[index]?.title,
        numeric: columns[index]?.numeric,
      })),
    })),
  };
}
