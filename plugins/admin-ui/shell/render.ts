import { relative } from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { projectFolder } from '../../../engine/config/index.ts';
import type { Membership } from '../../access/identity/index.ts';
import { membershipsOf } from './access.ts';
import type { Language, TextIn } from './catalogue.ts';
import { navigationOf } from './frame.ts';
import { recentMemberships, rememberOrganization } from './recent.ts';
import { shortcuts } from './shortcuts.ts';
import { shellTexts } from './texts/index.ts';
import {
  type AnyPage,
  type DisplayValue,
  type HiddenField,
  type Input,
  type ListView,
  type RecordPage,
  viewOf,
} from './views.ts';

/** Data for a view. */
export type ViewData = Readonly<Record<string, unknown>>;

/** An action's subject: its name is shown in the message, and its ID identifies the row to highlight. */
export interface Subject {
  readonly name?: string;
  readonly id?: string;
  /** Identifies the change that the message offers to undo. */
  readonly change?: string | undefined;
}

/** A button that undoes an action. */
interface UndoButton {
  readonly action: string;
  readonly fields: readonly HiddenField[];
}

/** A message shown after an action. `{}` is replaced with the subject's name. */
export interface DoneMessage {
  readonly text: string | TextIn;
  /** Returns the button that undoes the action, or undefined if it cannot be undone. */
  readonly undo: (request: FastifyRequest, subject: Subject) => UndoButton | undefined;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Messages shown after an action, keyed by `?done=` code. */
    doneTexts: Map<string, DoneMessage>;
  }
}

/** Adds messages for `?done=`. A text without a function cannot be undone. */
export function addDoneTexts(
  app: FastifyInstance,
  texts: Readonly<Record<string, string | TextIn | DoneMessage>>,
): void {
  for (const [code, text] of Object.entries(texts))
    app.doneTexts.set(code, typeof text === 'object' ? text : { text, undo: () => undefined });
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
  if (Object.values(subject).some((value) => value !== undefined)) {
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
    const { name, id, change } = JSON.parse(Buffer.from(text, 'base64url').toString()) as Record<
      string,
      unknown
    >;
    return {
      ...(typeof name === 'string' && { name }),
      ...(typeof id === 'string' && { id }),
      ...(typeof change === 'string' && { change }),
    };
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

/** Returns the only element of a list, or undefined if the list has a different length. */
const onlyOne = <T>(list: readonly T[]): T | undefined => (list.length === 1 ? list[0] : undefined);

/**
 * Renders a view with the data common to all pages.
 * @param view the view's path
 * @param data `language` is the language of the page's texts if all of them are translated. Default: English.
 */
export async function render(
  request: FastifyRequest,
  reply: FastifyReply,
  view: string,
  data: ViewData & { readonly title: string; readonly language?: Language },
): Promise<string> {
  const { server: app, person } = request;
  const { language = 'en' } = data;
  // An error page before login has no form, and a new cookie would invalidate the forms in other tabs.
  const csrf =
    data.hasForms === false && person === null
      ? undefined
      : reply.generateCsrf({ userInfo: request.formOwner, secure: app.site.isSecure(request) });
  const org = data.org as Membership | undefined;
  const { done } = request.query as { done?: unknown };
  const message = typeof done === 'string' ? app.doneTexts.get(done) : undefined;
  const messageText = typeof message?.text === 'function' ? message.text(language) : (message?.text ?? '');
  const subject = message === undefined ? {} : consumeSubject(request, reply);
  reply.headers({ 'content-type': 'text/html; charset=utf-8', 'content-language': language });
  const memberships = person === null ? [] : membershipsOf(person);
  const recent = person === null ? [] : recentMemberships(request, person);
  if (org !== undefined) rememberOrganization(request, reply, org);
  const frame = navigationOf(app, {
    ...{ memberships, recent },
    org: org ?? recent[0] ?? onlyOne(memberships),
    current: data.section as string | undefined,
    language,
  });
  return reply.viewAsync(relative(projectFolder, view), {
    language,
    csrf,
    // A reloaded page no longer knows the name, and does not repeat the message.
    notice:
      messageText === '' || (messageText.includes('{}') && subject.name === undefined)
        ? undefined
        : {
            before: messageText.split('{}')[0],
            // The name is user input, so the view escapes it separately from the message.
            name: messageText.includes('{}') ? subject.name : '',
            after: messageText.split('{}')[1],
            undo: message?.undo(request, subject),
          },
    marked: subject.id,
    isReadOnly: app.isReadOnly?.(),
    user: person?.session.user,
    // A reloaded page that answers a form must send the form again. The library would replace it in the browser's history. A page
    // that refreshes itself must be unloaded, or the browser would return to it.
    isReplaced: person !== undefined && request.method === 'GET' && data.refreshSeconds === undefined,
    path: request.url.split('?')[0],
    at: persistentQuery(request),
    frame,
    shortcuts: shortcuts.map(({ alternatives, text }) => ({ alternatives, text: text(language) })),
    hasCommands: data.primary !== undefined || data.commands !== undefined,
    ...data,
  });
}

/** Sends a page of any kind. */
export function show(
  request: FastifyRequest,
  reply: FastifyReply,
  { kind, ...page }: AnyPage & { readonly title: string },
  more: ViewData & { readonly language?: Language } = {},
): Promise<string> {
  if (page.refreshSeconds !== undefined) reply.header('refresh', String(page.refreshSeconds));
  return render(request, reply, viewOf(kind), {
    kind,
    ...page,
    ...dataFor({ kind, ...page } as AnyPage, request, more.language ?? 'en'),
    ...more,
  });
}

/** Returns data for templates in addition to the page's own data. */
function dataFor(page: AnyPage, request: FastifyRequest, language: Language): ViewData {
  if (page.kind === 'list') return listData(page, request, language);
  if (page.kind === 'form') return { inputs: inputData(page.hasFile ? page.inputs : withFocus(page.inputs)) };
  if (page.kind === 'confirm') return { inputs: inputData(page.inputs ?? []) };
  if (page.kind === 'board') return { hasChips: page.chips.length > 1 };
  return page.kind === 'record' ? recordData(page, request, language) : {};
}

/** Divides a record's values into details and values that the server maintains, and omits empty optional values. */
function recordData(
  { values, danger, list, links = [], buttons = [] }: RecordPage,
  request: FastifyRequest,
  language: Language,
): ViewData {
  const t = shellTexts(language);
  const isEmpty = ({ text, time, code, long }: RecordPage['values'][number]) =>
    [text, time, code, long].every((part) => part === undefined || part === null || part === '');
  const all = values.map((value) => ({
    ...value,
    isEmpty: isEmpty(value),
    ...(value.form && { form: { ...value.form, input: inputData([value.form.input])[0] } }),
  }));
  const shown = all.filter(({ isOptional, isEmpty }) => isOptional !== true || !isEmpty);
  const details = shown.filter(({ isSystem }) => isSystem !== true);
  const system = shown.filter(({ isSystem }) => isSystem === true);
  return {
    parts: [
      { title: system.length > 0 && details.length > 0 ? t('details') : '', values: details },
      { title: details.length > 0 ? t('systemInformation') : '', values: system },
    ].filter((part) => part.values.length > 0),
    hasTools: links.length + buttons.length > 0,
    ...(list !== undefined && {
      list: { ...list, ...listData(list, request, language), path: request.url.split('?')[0] },
    }),
    ...(danger !== undefined && { commands: [{ ...danger, style: 'danger', icon: 'trash-2' }] }),
  };
}

/** Kinds of inputs that do not receive the focus when a page opens. */
const unfocused: readonly Input['kind'][] = ['fixed', 'checkbox', 'checkboxes', 'grants'];

/** Returns the inputs of a form, of which the first one requests the focus if no other one does. */
function withFocus(inputs: readonly Input[]): readonly Input[] {
  const first = inputs.find(({ kind }) => !unfocused.includes(kind));
  if (inputs.some(({ focus }) => focus)) return inputs;
  return inputs.map((input) => (input === first ? { ...input, focus: true } : input));
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

/** Texts with more characters can be truncated in a cell, so the full text appears as a tooltip. */
const fullLength = 12;

/** Returns a cell's full text, with the text below it on a second line, or undefined if it cannot be truncated. */
function fullText({ text, below }: DisplayValue): string | undefined {
  const full = [text, below].filter((part) => part != null && part !== '').join('\n');
  return full.length > fullLength ? full : undefined;
}

/** Number of facts on a card, on boards and in place of a row on phones. */
export const factsPerCard = 2;

/** Returns whether a row has its own page. On phones, its card shows only the most important values. */
const isCard = ([title]: readonly DisplayValue[]): boolean => title?.href !== undefined;

/** Returns whether a value is omitted on phones. Badges and the first facts are shown. */
function isExtra(cells: readonly DisplayValue[], index: number): boolean {
  const isFact = ({ hue, state, text, time, code }: DisplayValue) =>
    hue === undefined &&
    state === undefined &&
    [text, time, code].some((part) => part != null && part !== '');
  const cell = cells[index];
  if (cell === undefined || !isCard(cells) || index === 0 || !isFact(cell)) return false;
  return cells.slice(1, index).filter(isFact).length >= factsPerCard;
}

/** Returns a list's data for the template, in addition to the list's own data. */
export function listData(
  { columns, rows }: ListView,
  request: FastifyRequest,
  language: Language = 'en',
): ViewData {
  const t = shellTexts(language);
  // After an action, users return to the page on which they started it.
  const at = persistentQuery(request);
  const withReturnQuery = (href: string) =>
    at === '' ? href : `${href}${href.includes('?') ? '&' : '?'}at=${encodeURIComponent(at)}`;
  return {
    hasActions: rows.some(({ links = [], buttons = [] }) => links.length + buttons.length > 0),
    rows: rows.map(({ id, label, cells, links = [], buttons = [] }) => ({
      id,
      selectLabel: t('select', { name: label ?? cells[0]?.text ?? id }),
      isCard: isCard(cells),
      links: links.map((link) => ({ ...link, href: withReturnQuery(link.href) })),
      buttons,
      label:
        links.length + buttons.length > 0 ? (label ?? cells[0]?.text ?? cells[0]?.code ?? id) : undefined,
      cells: cells.map((cell, index) => ({
        ...cell,
        column: columns[index]?.title,
        classes: [
          ...(columns[index]?.numeric === true ? ['number'] : []),
          ...(isExtra(cells, index) ? ['extra'] : []),
        ].join(' '),
        full: fullText(cell),
      })),
    })),
  };
}
