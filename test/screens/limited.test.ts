// Pages of a member whose profile is limited to a scope and lacks a field group: boards, charts and saved views.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import { administratorOf, formsOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedPerson } from '../support/limited.ts';
import { sourcesWith } from '../support/sources.ts';

const deals = {
  file: 'deals.yaml',
  text: `
singular: deal
description: A deal.
common: all
scopes:
  own: owner_id == me
fields:
  title: { type: string, description: The title. }
  stage: { type: string, enum: [Open, Won], default: Open, description: The stage. }
  amount: { type: number, nullable: true, group: finance, description: The amount. }
  terms: { type: string, enum: [Net, Gross], group: finance, description: The terms. }
  owner_id: { assignable: true }
sort: { by: created_at, direction: desc }
filters: [stage, terms, title, { field: amount, operators: [eq, gte] }]
screen: { board: stage }
`,
};
const home = '/setup/o/acme';
const list = `${home}/data/deals`;
const board = `${list}/board`;
const actions = ['list', 'read', 'update'];

onBothDrivers(
  'pages of a limited member',
  (instance) => {
    let acme: Organization;
    let admin: Visitor;
    let scoped: Visitor;
    let financed: Visitor;
    before(async () => {
      acme = await instance().organization('acme');
      admin = await signIn(instance(), administratorOf(acme));
      const own = actions.map((action) => `deals:${action}:own`);
      const person = await limitedPerson(instance(), acme, own);
      scoped = await signIn(instance(), person);
      const other = await limitedPerson(instance(), acme, [...own, 'deals.finance:read']);
      financed = await signIn(instance(), other);
      for (const [title, stage, amount, owner] of [
        ['Mine', 'Open', 10, person.id],
        ['Mine too', 'Open', 20.5, person.id],
        ['Theirs', 'Won', 40, other.id],
        ['Nobody', 'Open', 80, null],
      ] as const)
        await sql`insert into deals (organization_id, owner_id, title, stage, terms, amount, created_at, updated_at)
          values (${acme.id}::bigint, ${owner}::bigint, ${title}, ${stage}, 'Net', ${amount}, now(), now())`.execute(
          tablesOf(instance().database),
        );
    });

    /** Returns the totals above a board's columns. */
    const columnsOf = ({ text }: Answer) =>
      [...text.matchAll(/data-value="([^"]*)">[\s\S]*?<span class="below">(.*?)<\/span><\/h2>/g)].map(
        ([, value, total = '']) => `${value}: ${readable(total)}`,
      );
    /** Returns the rows of a home page's chart. */
    const chartOf = ({ text }: Answer) => {
      const [chart = ''] = /<section class="chart"[\s\S]*?<\/section>/.exec(text) ?? [];
      return [...chart.matchAll(/<tr><th scope="row">([\s\S]*?)<\/tr>/g)].map(([, row = '']) =>
        [...row.matchAll(/>([^<>]+)</g)]
          .map(([, part = '']) => readable(part.trim()))
          .filter(Boolean)
          .join(' '),
      );
    };

    test('boards and charts count the records in the scope, and add up only visible fields', async () => {
      for (const [browser, columns, chart] of [
        [admin, ['Open: 3 · 110.5', 'Won: 1 · 40.0'], ['Open 3 110.5', 'Won 1 40.0']],
        [financed, ['Open: 0', 'Won: 1 · 40'], ['Open 0', 'Won 1 40']],
        [scoped, ['Open: 2', 'Won: 0'], ['Open 2', 'Won 0']],
      ] as const) {
        const page = await browser.get(board);
        assert.deepEqual(columnsOf(page), columns);
        const start = await browser.get(home);
        assert.deepEqual(chartOf(start), chart);
        if (browser !== scoped) continue;
        for (const { text } of [page, start]) assert.doesNotMatch(text, /Theirs|Nobody|Amount|110\.5|30\.5/);
      }
    });

    test('cards move only between values that the member can write', async () => {
      const cardsOf = ({ text }: Answer) => [
        text.match(/<li[^>]*><a href="[^"]*\/data\/deals\/\d+">/g)?.length ?? 0,
        text.match(/draggable="true"/g)?.length ?? 0,
      ];
      const byTerms = `${board}?by=terms`;
      assert.deepEqual(cardsOf(await admin.get(byTerms)), [4, 4]);
      assert.deepEqual(cardsOf(await financed.get(byTerms)), [1, 0]);
      assert.deepEqual(cardsOf(await financed.get(board)), [1, 1], 'of the stage');
      assert.equal((await scoped.get(byTerms)).status, 404, 'a hidden field');
    });

    test('a saved view that names a hidden field shows the records in the scope without the field', async () => {
      const query = 'stage=Open&amount[gte]=15&sort=amount&dir=desc&columns=amount&columns=stage';
      const form = formsOf(await admin.get(`${list}/views/new?${query}`)).find(
        ({ action }) => action === `${list}/views`,
      );
      const saved = await admin.post(`${list}/views`, { ...form?.values, name: 'Large', shared: 'true' });
      assert.equal(saved.status, 303);
      const opened = async (browser: Visitor) => {
        const { text } = await browser.get(list);
        const [, href = ''] = /<a href="([^"]*view=\d+[^"]*)"/.exec(readable(text)) ?? [];
        assert.notEqual(href, '');
        return { href, text: readable((await browser.get(href)).text) };
      };
      const complete = await opened(admin);
      assert.match(complete.href, /amount\[gte\]=15|amount%5Bgte%5D=15/);
      assert.match(complete.text, /Nobody/);
      assert.doesNotMatch(complete.text, /They are ignored/);
      const limited = await opened(scoped);
      assert.doesNotMatch(limited.href, /amount/);
      assert.match(limited.text, /They are ignored: amount\./);
      assert.match(limited.text, />Mine too</);
      assert.match(limited.text, />Mine</);
      assert.doesNotMatch(limited.text, /Theirs|Nobody|20\.5/);
      // Fields that do not exist are ignored in the same way.
      await sql`update crm_saved_views set query = replace(query, 'amount', 'absent') where name = 'Large'`.execute(
        tablesOf(instance().database),
      );
      const absent = await opened(scoped);
      assert.equal(absent.href, limited.href);
      assert.match(absent.text, /They are ignored: absent\./);
    });
  },
  { sources: await sourcesWith(deals) },
);
