// Grants in the admin UI: record pages offer exactly the actions that a member's grants permit, and profile pages show
// what a profile grants, including grants with wildcards.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { humanize } from '../../engine/fields/labels.ts';
import { transaction } from '../../engine/tables/handle.ts';
import type { Grant } from '../../plugins/access/profiles/grants.ts';
import { createProfile } from '../../plugins/access/profiles/profiles.ts';
import { administratorOf, formsOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { command, fresh, makePerson } from '../support/people.ts';

const actions = ['list', 'read', 'create', 'update', 'delete'] as const;
type Action = (typeof actions)[number];

let instance: Instance;
let acme: Organization;
let admin: Visitor;
before(async () => {
  instance = await startInstance('postgresql');
  acme = await instance.organization('acme');
  admin = await signIn(instance, administratorOf(acme));
});
after(() => instance.close());

/** Returns the URLs that a page links to, without the list from which a record is opened. */
const linksOf = ({ text }: Answer): string[] =>
  [...text.matchAll(/<a[^>]*href="([^"]*)"/g)].map(([, href = '']) =>
    readable(href).replace(/\?list=.*$/, ''),
  );

describe('record pages offer exactly the actions that succeed', () => {
  const data = '/setup/o/acme/data/leads';
  /** Pages and the grants that they and their forms need. `record` has been changed and `gone` has been deleted. */
  const needs = {
    list: ['list'],
    export: ['list'],
    new: ['create'],
    import: ['create'],
    record: ['read'],
    edit: ['read', 'update'],
    undo: ['read', 'update'],
    delete: ['read', 'delete'],
    gone: ['read'],
    restore: ['read', 'create'],
  } as const satisfies Record<string, readonly Action[]>;
  type Page = keyof typeof needs;
  const pages = Object.keys(needs) as Page[];
  /** The actions that a page links to if they are permitted. */
  const offers: readonly (readonly [page: Page, offered: readonly Page[]])[] = [
    ['list', ['export', 'new', 'import', 'record', 'edit', 'delete']],
    ['record', ['edit', 'undo', 'delete']],
    ['edit', ['delete']],
    ['gone', ['restore']],
  ];
  const file = Buffer.from('last_name\nAmes').toString('base64');
  /** Forms and their fields, in an order in which they can all be submitted. */
  const forms: readonly (readonly [page: Page, fields: () => Readonly<Record<string, string>>])[] = [
    ['new', () => ({ last_name: 'Ames' })],
    ['import', () => ({ content: file, step: 'import', key: fresh('key') })],
    ['edit', () => ({ last_name: 'Bond' })],
    ['undo', () => ({})],
    ['delete', () => ({})],
    ['restore', () => ({})],
  ];

  /** Creates a changed record and a deleted record. Returns the URLs of their pages. */
  const makeRecords = async (): Promise<Readonly<Record<Page, string>>> => {
    const send = async (request: string, body?: object) => {
      const answer = await instance.call(request, { key: acme.key, ...(body && { body }) });
      assert.ok(answer.status < 300, answer.text);
      return String(answer.json.id);
    };
    const id = await send('POST /api/v1/leads', { last_name: fresh('Ames') });
    await send(`PATCH /api/v1/leads/${id}`, { company: 'B' });
    const gone = await send('POST /api/v1/leads', { last_name: fresh('Gone') });
    await send(`DELETE /api/v1/leads/${gone}`);
    const undoLink = async (record: string) =>
      linksOf(await admin.get(`${data}/${record}`)).find((link) => link.includes('/undo?')) ??
      assert.fail(record);
    return {
      list: data,
      export: `${data}/export`,
      new: `${data}/new`,
      import: `${data}/import`,
      record: `${data}/${id}`,
      edit: `${data}/${id}/edit`,
      undo: await undoLink(id),
      delete: `${data}/${id}/delete`,
      gone: `${data}/${gone}`,
      restore: await undoLink(gone),
    };
  };

  for (let mask = 0; mask < 2 ** actions.length; mask++) {
    const granted = actions.filter((_, index) => mask & (1 << index));
    test(`to a member with ${granted.length === 0 ? 'no grants' : `the grants ${granted.join(', ')}`}`, async () => {
      const urls = await makeRecords();
      const person = await makePerson(instance, [
        { organization: acme, grants: [{ object: 'leads', actions: granted }] },
      ]);
      const browser = await signIn(instance, person);
      const isPermitted = (page: Page) => needs[page].every((action) => granted.includes(action));
      for (const page of pages) {
        const { status } = await browser.get(urls[page]);
        assert.equal(status, isPermitted(page) ? 200 : 403, `GET ${page}`);
      }
      for (const [page, offered] of offers.filter(([each]) => isPermitted(each))) {
        const opened = await browser.get(urls[page]);
        const links = linksOf(opened);
        if (page === 'list')
          assert.equal(opened.text.includes(' data-edit="'), isPermitted('edit'), 'in cells');
        // Links to the list and the record are navigation, except in the list.
        const found = pages.filter(
          (each) =>
            links.includes(urls[each]) && (page === 'list' ? each !== 'list' : !/list|record/.test(each)),
        );
        assert.deepEqual(
          found,
          pages.filter((each) => offered.includes(each) && isPermitted(each)),
          page,
        );
      }
      const _csrf = await browser.token('/setup/me');
      for (const [page, fields] of forms) {
        const action = urls[page].replace(/\?.*/, '');
        const form = isPermitted(page)
          ? formsOf(await browser.get(urls[page])).find((each) => each.action === action)
          : { values: { _csrf, change: new URL(urls[page], instance.url).searchParams.get('change') ?? '' } };
        const { status } = await browser.post(action, { ...form?.values, ...fields() });
        assert.equal(status, isPermitted(page) ? 303 : 403, `POST ${page}`);
      }
    });
  }
});

test('no profile is preselected for a new member, and administrator is the last one', async () => {
  await transaction(instance.database, (tables) =>
    createProfile(tables, command(instance), acme.id, 'zookeeper', []),
  );
  const { id } = await makePerson(instance, [
    { organization: acme, grants: [{ object: 'leads', actions: ['list'] }] },
  ]);
  const profilesOn = async (page: string) => {
    const { text } = await admin.get(`/setup/o/acme/members/${page}`);
    const [, options = ''] = /<select[^>]* name="profile"[^>]*>(.*?)<\/select>/s.exec(text) ?? [];
    return [...options.matchAll(/<option value="\d*"( selected)?[^>]*>([^<]*)</g)].map(
      ([, selected, name = '']) => ({ name, isSelected: selected !== undefined }),
    );
  };
  const profiles = await profilesOn('invite');
  const names = profiles.map(({ name }) => name);
  assert.deepEqual(names.slice(-2), ['zookeeper', 'administrator']);
  assert.ok(names.indexOf('read-only') < names.indexOf('zookeeper'));
  assert.ok(!profiles.some(({ isSelected }) => isSelected));
  const selected = (await profilesOn(`change?id=${id}`)).filter(({ isSelected }) => isSelected);
  assert.match(selected.map(({ name }) => name).join(), /^profile-\d+$/);
});

/** Granted actions by object. */
type Grants = Readonly<Record<string, readonly string[]>>;

describe('profile pages show what a profile grants', () => {
  const profiles = '/setup/o/acme/profiles';
  const all = actions.join(', ');
  const resources = () => instance.resources.map(({ name }) => name);
  const onResources = (names: string) => resources().map((name) => `${humanize(name)}: ${names}`);

  /** Returns the text in the list's column Grants. */
  const summaryOf = async (name: string) => {
    const { text } = await admin.get(`${profiles}?q=${name}`);
    const row = new RegExp(`>${name}</a></th><td data-label="Grants"[^>]*>([^<]*)</td>`).exec(text);
    return readable(row?.[1] ?? assert.fail(text));
  };
  /** Returns the checkboxes of the grants matrix that are checked, and whether they can be changed. */
  const checkedOn = async (page: string) =>
    [...(await admin.get(page)).text.matchAll(/<input type="checkbox" name="grant" value="([^"]*)"([^>]*)>/g)]
      .filter(([, , more = '']) => more.includes(' checked'))
      .map(([, value = '', more = '']) => ({ value, isFixed: more.includes(' disabled') }));
  /** Returns the grants of a new key with this profile, as the API states them. */
  const grantsOf = async (profile: string) => {
    const { key } = await acme.makeKey({ profile });
    return (await instance.call('GET /auth/me', { key })).json.grants as Grants;
  };
  /** Returns the checkboxes for these grants. Grants on everything are fixed in the rows of the resources. */
  const checkedBoxes = (grants: Grants) =>
    ['*', ...resources(), 'events', 'members'].flatMap((object) =>
      actions.flatMap((action) => {
        const isFixed = resources().includes(object) && grants['*']?.includes(action) === true;
        const isChecked = isFixed || grants[object]?.includes(action) === true;
        return isChecked ? [{ value: `${object}:${action}`, isFixed }] : [];
      }),
    );

  const cases: readonly (readonly [
    name: string,
    grants: readonly Grant[],
    summary: () => string,
    effective: Grants,
  ])[] = [
    ['no grants', [], () => 'nothing yet', {}],
    ['one action', [{ object: 'leads', actions: ['read'] }], () => 'Leads: read', { leads: ['read'] }],
    [
      'all actions on a resource',
      [{ object: 'leads', actions: ['*'] }],
      () => `Leads: ${all}`,
      { leads: actions },
    ],
    [
      'all actions on events and members',
      [
        { object: 'events', actions: ['*'] },
        { object: 'members', actions: ['*'] },
      ],
      () => `Events: ${all}; Members: ${all}`,
      { events: actions, members: actions },
    ],
    [
      'an action on everything, and all actions on a resource',
      [
        { object: '*', actions: ['list'] },
        { object: 'leads', actions: ['*'] },
      ],
      () => onResources('list').join('; ').replace('Leads: list', `Leads: ${all}`),
      { '*': ['list'], leads: actions },
    ],
    [
      'all actions on everything',
      [{ object: '*', actions: ['*'] }],
      () => onResources(all).join('; '),
      { '*': actions },
    ],
    [
      'all actions on everything, on events and on members',
      ['*', 'events', 'members'].map((object) => ({ object, actions: ['*'] })),
      () => `${all} on everything`,
      { '*': actions, events: actions, members: actions },
    ],
  ];
  for (const [name, grants, summary, effective] of cases)
    test(`${name}: in the list and in the form, which keeps them when it is saved unchanged`, async () => {
      const profile = fresh('profile');
      const id = await transaction(instance.database, (tables) =>
        createProfile(tables, command(instance), acme.id, profile, grants),
      );
      const page = `${profiles}/change?id=${id}`;
      const assertShown = async () => {
        assert.equal(await summaryOf(profile), summary());
        const checked = await checkedOn(page);
        assert.deepEqual(checked, checkedBoxes(effective));
        assert.deepEqual(checkedBoxes(await grantsOf(profile)), checked, 'as the API applies them');
        return checked;
      };
      const checked = await assertShown();
      assert.doesNotMatch((await admin.get(page)).text, /A row with “only”|saving removes them/);
      // Browsers do not send disabled checkboxes.
      const grant = checked.flatMap(({ value, isFixed }) => (isFixed ? [] : [value]));
      const saved = await admin.submit(page, `${profiles}/change`, { id, grant });
      assert.equal(saved.status, 303);
      await assertShown();
    });

  for (const [name, onRecords, onOthers, summary] of [
    ['administrator', all, all, `${all} on everything`],
    ['read-only', 'list, read', 'nothing', undefined],
  ] as const)
    test(`the built-in profile ${name}`, async () => {
      const list = await admin.get(`${profiles}?q=${name}`);
      const link =
        linksOf(list).find((href) => href.startsWith(`${profiles}/built-in?`)) ?? assert.fail(list.text);
      const values = [...(await admin.get(link)).text.matchAll(/<dt>([^<]*)<\/dt><dd>([^<]*)<\/dd>/g)].map(
        ([, object, text]) => `${object}: ${text}`,
      );
      const others = ['Events', 'Members'].map((object) => `${object}: ${onOthers}`);
      assert.deepEqual(values, [...onResources(onRecords), ...others]);
      assert.equal(await summaryOf(name), summary ?? onResources(onRecords).join('; '));
    });
});
