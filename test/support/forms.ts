// A browser without scripts: keeps cookies, finds the forms on a page, and sends them as a browser would.
import assert from 'node:assert/strict';
import { type Answer, type Instance, type Organization, send } from './instance.ts';
import type { Person } from './people.ts';

type Fields = Readonly<Record<string, string | readonly string[]>>;
type Headers = Readonly<Record<string, string>>;

/** A form as a page has it. */
export interface Form {
  readonly action: string;
  /** What it holds before the user types: hidden fields, and those with a value. */
  readonly values: Readonly<Record<string, string>>;
}

/** Somebody with a browser. */
export interface Visitor {
  /** Its cookies by name, kept from answer to answer; tests may change them. */
  readonly cookies: Map<string, string>;
  readonly get: (path: string, headers?: Headers) => Promise<Answer>;
  /** Posts fields as they are, from a page of the same origin unless the headers say otherwise. */
  readonly post: (path: string, fields: Fields, headers?: Headers) => Promise<Answer>;
  /** Opens a page and sends the form on it that goes to an address; its hidden fields go along. */
  readonly submit: (page: string, action: string, fields?: Fields) => Promise<Answer>;
  /** The token of the forms on a page. */
  readonly token: (page: string) => Promise<string>;
}

/** The character that a page wrote as an entity. */
const entities: Readonly<Record<string, string>> = {
  '&amp;': '&',
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&#x27;': "'",
  '&#x3D;': '=',
  '&#x60;': '`',
};
/** Text of a page as a reader sees it. */
export const readable = (html: string): string =>
  html.replace(/&(?:amp|lt|gt|quot|#x27|#x3D|#x60);/g, (entity) => entities[entity] ?? entity);

/** Every form of a page. */
export function formsOf({ text }: Pick<Answer, 'text'>): Form[] {
  return [...text.matchAll(/<form[^>]* method="post"[^>]* action="([^"]*)"[^>]*>([\s\S]*?)<\/form>/g)].map(
    ([, action = '', inside = '']) => ({
      action: readable(action),
      values: Object.fromEntries(
        [...inside.matchAll(/<input[^>]*>/g)].flatMap(([input]) => {
          const name = / name="([^"]*)"/.exec(input)?.[1];
          const value = / value="([^"]*)"/.exec(input)?.[1];
          return name === undefined || value === undefined || input.includes('checkbox')
            ? []
            : [[name, readable(value)]];
        }),
      ),
    }),
  );
}

/** What a page says went wrong. */
export const problemOf = ({ text }: Answer): string =>
  readable(/<p class="problem" role="alert">([^<]*)<\/p>/.exec(text)?.[1] ?? '');

/** What a page shows in a field that can only be read, such as a new key. */
export const shownIn = ({ text }: Answer, id: string): string =>
  readable(new RegExp(`<textarea id="${id}"[^>]* readonly[^>]*>([^<]*)<`).exec(text)?.[1] ?? '');

/** Opens a browser on an instance. */
export function visitor({ url }: Pick<Instance, 'url'>): Visitor {
  const cookies = new Map<string, string>();
  const ask = async (request: string, headers: Headers, body?: string): Promise<Answer> => {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const answer = await send(url, request, {
      headers: { ...(cookie === '' ? {} : { cookie }), ...headers },
      ...(body === undefined ? {} : { body }),
    });
    for (const each of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(each) ?? [];
      if (value === '') cookies.delete(name);
      else cookies.set(name, value);
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

/** Opens a browser and logs a person in by the form. */
export async function signIn(
  instance: Pick<Instance, 'url'>,
  { email, password }: Pick<Person, 'email' | 'password'>,
): Promise<Visitor> {
  const browser = visitor(instance);
  const answer = await browser.submit('/setup/login', '/setup/login', { email, password });
  assert.equal(answer.status, 303, problemOf(answer));
  return browser;
}

/** The value of a choice on a page, by its text. */
export async function optionOf(browser: Visitor, page: string, text: string): Promise<string> {
  const html = (await browser.get(page)).text;
  const all = [...html.matchAll(/<option value="([^"]*)"[^>]*>([^<]*)</g)];
  return all.find(([, , name]) => name === text)?.[1] ?? assert.fail(`no ${text} on ${page}`);
}

/** The person who made the administrator's key of an organization. */
export const administratorOf = ({ slug, user }: Organization): Person => ({
  id: user,
  email: `admin@${slug}.example`,
  password: 'a long enough password',
});
