// The CPU time of pages of the admin UI with many records.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { takesAtMost } from '../support/clock.ts';
import { administratorOf, signIn, type Visitor } from '../support/forms.ts';
import { drivers, type Instance, type Organization, startInstance } from '../support/instance.ts';

/** Number of leads, and their number per batch. */
const [leads, batch] = [5000, 500];
/** Limit for each page in calibration loops of about 10 ms. */
const loopsPerPage = 3;
/** Requests before and during the measurement of a page. */
const [warmUp, measured] = [3, 5];

const pages: readonly string[] = [
  '',
  '/data/leads',
  '/data/leads?rating=Hot&sort=last_name',
  '/data/leads?q=lead+42',
  '/data/leads?page=100',
  '/data/leads/board',
  '/data/leads/1',
  '/data/leads/1/edit',
  '/data/leads/new',
  '/search?q=lead',
  '/activity',
  '/members',
];

// The embedded database runs in the process that is measured.
describe('pages with 5,000 records', { skip: !drivers.includes('postgresql') }, () => {
  let instance: Instance;
  let acme: Organization;
  let admin: Visitor;
  before(async () => {
    instance = await startInstance('postgresql');
    acme = await instance.organization('acme');
    admin = await signIn(instance, administratorOf(acme));
    for (let from = 1; from <= leads; from += batch) {
      const records = Array.from({ length: batch }, (_, index) => ({
        ...{ first_name: 'Ada', last_name: `Lead ${from + index}`, company: `Company ${index % 100}` },
        ...{ email: `lead-${from + index}@people.example`, rating: index % 3 === 0 ? 'Hot' : 'Cold' },
        description: 'A description of a lead, in a sentence or two. '.repeat(5),
      }));
      const { status, text } = await instance.call('POST /api/v1/leads/batch', {
        key: acme.key,
        body: { records },
      });
      assert.equal(status, 200, text);
    }
  });

  after(() => instance.close());

  for (const page of pages)
    test(`${page === '' ? 'the home page' : page} takes at most ${loopsPerPage} calibration loops`, async () => {
      const get = async (times: number) => {
        for (let count = 0; count < times; count++) {
          const { status } = await admin.get(`/setup/o/acme${page}`);
          assert.equal(status, 200);
        }
      };
      await get(warmUp);
      await takesAtMost(loopsPerPage * measured, () => get(measured));
    });
});
