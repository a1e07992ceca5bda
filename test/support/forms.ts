// A browser without scripts. It keeps cookies for their paths, finds the forms on a page and submits them as a browser
// does.
import assert from 'node:assert/strict';
import { type Answer, type Instance, type Organization, send } from './instance.ts';
import type { Person } from './people.ts';

type Fields = Readonly<Record<string, string | readonly string[]>>;
type Headers = Readonly<Record<string, string>>;

/** A form on a page. */
export interface Form {
  readonly action: string;
  /** Values before the user types: hidden fields and prefilled fields. */
  readonly values: Readonly<Record<string, string>>;
  /** Names of all controls. */
  readonly names: readonly string[];
}

/** A browser session. */
export interface Visitor {
  /**
   * Cookies, keyed by name and kept between responses. As in a browser, a cookie is sent only to the path for which it
   * was set, and only a response for this path clears it. Tests can change them.
   */
  readonly cookies: Map<string, string>;
  readonly get: (path: string, headers?: Headers) => Promise<Answer>;
  /** Posts fields unchanged, from a page with the same origin unless the headers override it. */
  readonly post: (path: string, fields: Fields, headers?: Headers) => Promise<Answer>;
  /** Opens a page and submits its form with this action, including the hidden fields. */
  readonly submit: (page: string, action: string, fields?: Fields) => Promise<Answer>;
  /** Returns the CSRF token of a page's forms. */
  readonly token: (page: string) => Promise<string>;
}

/** Characters, keyed by HTML entity. */
const entities: Readonly<Record<string, string>> = {
  '&amp;': '&',
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&#x27;': "'",
  '&#x3D;': '=',
  '&#x60;': '`',
};
/** Returns a page's text as a reader sees it. */
export const readable = (html: string): string =>
  html.replace(/&(?:amp|lt|gt|quot|#x27|#x3D|#x60);/g, (entity) => entities[entity] ?? entity);

/** Returns all POST forms on a page. */
export function formsOf({ text }: Pick<Answer, 'text'>): Form[] {
  return [...text.matchAll(/<form[^>]* method="post"[^>]* action="([^"]*)"[^>]*>([\s\S]*?)<\/form>/g)].map(
    ([, action = '', inside = '']) => ({
      action: readable(action),
      values: Object.fromEntries([
        ...[...inside.matchAll(/<select[^>]* name="([^"]*)"[^>]*>([\s\S]*?)<\/select>/g)].flatMap(
          ([, name = '', options = '']) => {
            const value = /<option value="([^"]*)" selected/.exec(options)?.[1];
            return value === undefined ? [] : [[name, readable(value)]];
          },
        ),
        ...[...inside.matchAll(/<input[^>]*>/g)].flatMap(([input]) => {
          const name = / name="([^"]*)"/.exec(input)?.[1];
          const value = / value="([^"]*)"/.exec(input)?.[1];
          return name === undefined || value === undefined || input.includes('checkbox')
            ? []
            : [[name, readable(value)]];
        }),
      ]),
      names: [
        ...new Set(
          [...inside.matchAll(/<(?:input|select|textarea)[^>]* name="([^"]*)"/g)].map(([, name = '']) =>
            readable(name),
          ),
        ),
      ],
    }),
  );
}

/** Returns the error message on a page. */
export const problemOf = ({ text }: Answer): string =>
  readable(/<p class="problem" role="alert">([^<]*)<\/p>/.exec(text)?.[1] ?? '');

/** Returns the value of a read-only field, for example a new key. */
export const shownIn = ({ text }: Answer, id: string): string =>
  readable(new RegExp(`<textarea id="${id}"[^>]* readonly[^>]*>([^<]*)<`).exec(text)?.[1] ?? '');

/** Opens a browser session on an instance. */
export function visitor({ url }: Pick<Instance, 'url'>): Visitor {
  const cookies = new Map<string, string>();
  /** The path for which each cookie was set. A cookie that a test adds is sent everywhere. */
  const paths = new Map<string, string>();
  const ask = async (request: string, headers: Headers, body?: string): Promise<Answer> => {
    const { pathname } = new URL(request.replace(/^\S+ /, ''), url);
    const isSent = ([name]: readonly [string, string]) =>
      `${pathname}/`.startsWith(`${paths.get(name) ?? ''}/`.replace('//', '/'));
    const cookie = [...cookies]
      .filter(isSent)
      .map(([name, value]) => `${name}=${value}`)
      .join('; ');
    const answer = await send(url, request, {
      headers: { ...(cookie === '' ? {} : { cookie }), ...headers },
      ...(body === undefined ? {} : { body }),
    });
    for (const each of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(each) ?? [];
      // Without a path, a browser uses the folder of the request's path.
      const path = /; *path=([^;]*)/i.exec(each)?.[1] ?? pathname.replace(/\/[^/]*$/, '');
      if (value !== '') {
        cookies.set(name, value);
        paths.set(name, path);
      } else if ((paths.get(name) ?? path) === path) cookies.delete(name);
    }
    return answer;
  };
  const get: Visitor['get'] = (path, headers = {}) => ask(`GET ${path}`, headers);
  const post: Visitor['post'] = (path, fields, headers = {}) => {
    const pairs = Object.entries(fields).flatMap(([name, value]) =>
      [value].flat().map((each) => [name, each] as [string, string]),
    );
    const form = 'application/x-www-form-urlencoded';
    return ask(
      `POST ${path}`,
      { 'content-type': form, 'sec-fetch-site': 'same-origin', ...headers },
      new URLSearchParams(pairs).toString(),
    );
  };
  const token = async (page: string) =>
    formsOf(await get(page))[0]?.values._csrf ?? assert.fail(`no form on ${page}`);
  return {
    cookies,
    get,
    post,
    token,
    submit: async (page, action, fields = {}) => {
      const all = formsOf(await get(page)).filter((form) => form.action === action);
      const form = all.find(({ values }) => values.id === fields.id) ?? all[0];
      return post(action, { ...(form?.values ?? { _csrf: await token(page) }), ...fields });
    },
  };
}

/** Opens a browser session and logs in with the form. */
export async function signIn(
  instance: Pick<Instance, 'url'>,
  { email, password }: Pick<Person, 'email' | 'password'>,
): Promise<Visitor> {
  const browser = visitor(instance);
  const answer = await browser.submit('/setup/login', '/setup/login', { email, password });
  assert.equal(answer.status, 303, problemOf(answer));
  return browser;
}

/** Returns the value of the option with this text on a page. */
export async function optionOf(browser: Visitor, page: string, text: string): Promise<string> {
  const html = (await browser.get(page)).text;
  const all = [...html.matchAll(/<option value="([^"]*)"[^>]*>([^<]*)</g)];
  return all.find(([, , name]) => name === text)?.[1] ?? assert.fail(`no ${text} on ${page}`);
}

/** Returns the user who created an organization's administrator key. */
export const administratorOf = ({ slug, user }: Organization): Person => ({
  id: user,
  email: `admin@${slug}.example`,
  password: 'a long enough password',
});
