// Imports in the admin UI: jobs with progress, which are canceled, undone and imported only once. Their lines with errors are a
// CSV file.
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { guessColumns, previewCsv } from '../../engine/records/index.ts';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { removeMember } from '../../plugins/access/members/members.ts';
import { escapeFormulas, safeCell, unescapeFormulas } from '../../plugins/admin-ui/records/csv-cells.ts';
import { countRecords, slicesOf } from '../../plugins/admin-ui/records/import-file.ts';
import { defaultImportWaitMs } from '../../plugins/admin-ui/records/import-job.ts';
import {
  type ImportResult,
  importResultJson,
  parseImportResult,
} from '../../plugins/admin-ui/records/import-report.ts';
import { maxResult } from '../../plugins/jobs/index.ts';
import { createErasure } from '../../plugins/tenants/erasure/erase-person.ts';
import { administratorOf, formsOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedPerson } from '../support/limited.ts';
import { command, fresh, makePerson } from '../support/people.ts';
import { until } from '../support/process.ts';
import { patienceMs } from '../support/promised.ts';
import { sourcesWith } from '../support/sources.ts';
import { people } from '../support/unique-people.ts';

/** A file that takes many seconds, and its number of lines. */
const longLines = 300_000;
const longFile = `last_name\n${'a\n'.repeat(longLines)}`;

test('records are counted in files with line breaks in cells, and with quotation marks that are text', () => {
  const file = 'last_name;description\r\nA;5" pipe\r\n"B\r\n""C""";x\r\n\r\nD;"6"""\r\nE;=\r\n"F""\r\nG";x';
  assert.equal(countRecords(Buffer.from(file), ';'), 5);
});

test('the delimiter of a file is the one with which its header has the most cells', () => {
  const previewOf = (file: string) => previewCsv(Buffer.from(file), 2);
  for (const [delimiter, character] of [
    ['comma', ','],
    ['semicolon', ';'],
    ['tab', '\t'],
    ['pipe', '|'],
  ] as const) {
    const header = ['a', 'b', `c${character === ',' ? ';' : ','}d`];
    const records = [
      ['1', '', '3'],
      ['4', '5', '6'],
    ];
    const rows = [header, ...records, ['7', '8', '9']].map((cells) => cells.join(character));
    assert.deepEqual(previewOf(`\ufeff${rows.join('\n\n')}`), { delimiter, header, records });
  }
  assert.equal(previewOf('"a'), undefined);
  const cellsOf = (commas: number) => previewOf(','.repeat(commas))?.header.length;
  assert.deepEqual([cellsOf(1999), cellsOf(2000)], [2000, 1], 'a header has at most 2,000 cells');
});

test('a column contains the field with its name, with its other name, or else with a similar name', () => {
  const fields = [
    { name: 'city', label: 'City', otherNames: ['Ort', 'Town'] },
    { name: 'postal_code', label: 'ZIP' },
    { name: 'region', label: 'Ö' },
  ];
  const unknown = (count: number) => Array.from({ length: count }, (_, index) => `#${index}#`);
  for (const [header, expected] of [
    [
      ['CITY', 'Postal-Code'],
      ['city', 'postal_code'],
    ],
    [
      ['zip', 'Ö'],
      ['postal_code', 'region'],
    ],
    [
      ['ort', 'Postl code'],
      ['city', 'postal_code'],
    ],
    // The field's own name precedes others, and other names precede similar ones. A field is assigned only once.
    [
      ['Ort', 'city'],
      ['', 'city'],
    ],
    [
      ['Citty', 'town'],
      ['', 'city'],
    ],
    [
      ['Citty', 'Citti'],
      ['city', ''],
    ],
    [
      ['Name', 'Ä', ''],
      ['', '', ''],
    ],
    // Only 100 columns, with names of at most 60 characters, are compared with similar names.
    [unknown(99).concat('Citty'), unknown(99).fill('').concat('city')],
    [unknown(100).concat('Citty'), unknown(101).fill('')],
    [
      [`Citty${' '.repeat(55)}`, `Postl code${' '.repeat(51)}`],
      ['city', ''],
    ],
  ] as const)
    assert.deepEqual([...guessColumns(header, fields).values()], expected, header.join());
});

test('the apostrophes of exported files are removed at the start of every cell', async () => {
  const file = `a,b\n5" pipe,'=1\n'=2,x\n"'=3","4""'="\r\n,'=5\r\n"",'@6\n'x,''=7\n"8""\n'=9"",'=10"\n","`;
  const restored = `a,b\n5" pipe,=1\n=2,x\n"=3","4""'="\r\n,=5\r\n"",@6\n'x,'=7\n"8""\n'=9"",'=10"\n","`;
  const importedFrom = (chunks: readonly Buffer[]) =>
    text(Readable.from(chunks).pipe(unescapeFormulas('comma')));
  assert.equal(await importedFrom([Buffer.from(file)]), restored);
  assert.equal(await importedFrom([...file].map((byte) => Buffer.from(byte))), restored, 'byte by byte');
  assert.equal(await importedFrom([Buffer.from("a\n'")]), "a\n'", 'at the end of the file');
});

test('formulas in exported files get an apostrophe only at the start of cells', async () => {
  const file = `a,=b\n=1,"=2"\n"3"",=4""\n=5","6""=7"\n"",@8\n`;
  const escaped = `a,=b\n'=1,"'=2"\n"3"",=4""\n=5","6""=7"\n"",'@8\n`;
  assert.equal(await text(Readable.from([Buffer.from(file)]).pipe(escapeFormulas(() => true))), escaped);
});

test('an error in a CSV file is one cell, which is never a formula', () => {
  assert.deepEqual(['=1, "a"', "'x", 'b'].map(safeCell), [`"'=1, ""a"""`, `"''x"`, '"b"']);
});

test('a file is read completely, in slices', () => {
  for (const length of [0, 1, 65_535, 65_536, 65_537, 200_000]) {
    const file = Buffer.from(Array.from({ length }, (_, index) => index % 251));
    assert.ok(Buffer.concat([...slicesOf(file)]).equals(file), `${length} bytes`);
  }
});

test('a stored report says that lines with errors are left out because of its size', () => {
  const counts = { created: 1, updated: 0, failed: 1000, stopped: false, dry_run: false, ignored: [] };
  const reportOf = (length: number) => {
    const lines = Array.from({ length: 1000 }, (_, index) => ({
      ...{ line: index + 2, code: 'invalid_body', error: 'x'.repeat(length) },
    }));
    const json = importResultJson({ ...counts, lines, truncated: false } as ImportResult);
    assert.ok(json.length <= maxResult);
    return parseImportResult(json) ?? assert.fail();
  };
  const [short, long] = [reportOf(10), reportOf(maxResult / 500)];
  assert.deepEqual([short.lines.length, short.truncated], [1000, false]);
  assert.ok(long.lines.length > 100 && long.lines.length < 1000 && long.truncated, String(long.lines.length));
});

const ownLeads = {
  file: 'resources/own-leads.yaml',
  text: 'extends: leads\nscopes: { own: owner_id == me }\n',
};

onBothDrivers(
  'imports in the admin UI',
  (instance) => {
    let acme: Organization;
    let admin: Visitor;
    let leads: string;
    // The jobs of an organization run one after another.
    beforeEach(async () => {
      instance().app.importWaitMs = defaultImportWaitMs;
      acme = await instance().organization(fresh('acme'));
      admin = await signIn(instance(), administratorOf(acme));
      leads = `/setup/o/${acme.slug}/data/leads`;
    });
    /** Confirms the import of a file. */
    const confirm = async (csv: string, browser = admin, key = fresh('key')): Promise<Answer> => {
      const _csrf = await browser.token(`${leads}/import`);
      const content = Buffer.from(csv).toString('base64');
      return browser.post(`${leads}/import`, { _csrf, content, key, step: 'import' });
    };
    /** Starts an import. @returns the path of its job's page */
    const start = async (csv: string, browser = admin): Promise<string> => {
      const answer = await confirm(csv, browser);
      assert.equal(answer.status, 303, problemOf(answer));
      const location = answer.headers.get('location') ?? '';
      assert.match(location, new RegExp(`^${leads}/jobs/\\d+$`));
      return location;
    };
    const idOf = (path: string): string => path.split('/').at(-1) ?? '';
    const shows = (path: string, text: RegExp, browser = admin) =>
      until(async () => text.test(readable((await browser.get(path)).text)), String(text));
    const cancel = async (path: string) => {
      const button =
        formsOf(await admin.get(path)).find(({ action }) => action === `${path}/cancel`) ?? assert.fail();
      assert.equal((await admin.post(button.action, button.values)).status, 303);
    };
    const undoOn = (page: Answer) => formsOf(page).find(({ action }) => action === `${leads}/undo`);
    const count = async (): Promise<number> => {
      const { headers } = await instance().call('GET /api/v1/leads?page_size=1', {
        key: acme.key,
        headers: { prefer: 'count=exact' },
      });
      return Number(headers.get('x-total-count'));
    };
    const inputOf = async (path: string): Promise<string> => {
      const { rows } = await sql<{ readonly input: string }>`
      select input from crm_jobs where organization_id = ${acme.id}::bigint and id = ${idOf(path)}::bigint`.execute(
        tablesOf(instance().database),
      );
      return rows[0]?.input ?? assert.fail();
    };
    /** Adds jobs that no process runs: running for another process, or not due. */
    const addJobs = (state: 'running' | 'queued', number: number) =>
      sql`insert into crm_jobs (organization_id, resource, action, input, state, caller_kind, request_id, due_at)
      select ${acme.id}::bigint, 'leads', 'other', '{}', ${state}, 'command', '', now() + interval '1 hour'
      from generate_series(1, ${number}::int)`.execute(tablesOf(instance().database));

    test('a small file is imported before the response, which leads to the list', async () => {
      instance().app.importWaitMs = patienceMs;
      const answer = await confirm('last_name\nSmall\n');
      assert.equal(answer.headers.get('location'), `${leads}?done=records-imported`, problemOf(answer));
      assert.match(readable((await admin.get(`${leads}?done=records-imported`)).text), /1 record.* imported/);
    });

    test('the page lists what was written and the lines with errors, which are downloaded as CSV', async () => {
      const valid = ['Ada,1,', 'Grace,2,'];
      const invalid = Array.from({ length: 60 }, (_, index) => `=${index},x,`);
      const path = await start(['last_name,lead_score,shoe', ...valid, ...invalid, 'Alan,3,'].join('\n'));
      await shows(path, /Completed/);
      const page = await admin.get(path);
      const text = readable(page.text);
      assert.match(text, /3 records created, 60 lines with errors\./);
      assert.match(text, /Ignored columns: shoe\./);
      assert.match(text, /63 of 63/);
      assert.equal(text.match(/<li>Line \d+: lead_score must be/g)?.length, 50);
      assert.match(text, /More lines have errors/);
      assert.equal(page.headers.get('refresh'), null);
      const file = await admin.get(`${path}/errors.csv`);
      assert.match(
        file.headers.get('content-disposition') ?? '',
        /^attachment; filename="leads-errors\.csv"$/,
      );
      assert.match(text, new RegExp(`href="${path}/errors.csv"`));
      const [header, ...lines] = file.text.trim().split('\r\n');
      assert.equal(header, 'line,error');
      assert.equal(lines.length, 60);
      assert.match(lines[0] ?? '', /^4,"lead_score must be/);
      assert.equal(await inputOf(path), '', 'the file is not kept');
    });

    test('the page undoes the import', async () => {
      const path = await start('last_name,lead_score\nAda,1\nGrace,x\nAlan,2\n');
      await shows(path, /2 records created, 1 line with errors/);
      const undo = undoOn(await admin.get(path)) ?? assert.fail();
      const colleague = await signIn(instance(), await makePerson(instance(), [{ organization: acme }]));
      const seen = await colleague.get(path);
      assert.match(readable(seen.text), /2 records created, 1 line with errors/);
      assert.equal(undoOn(seen), undefined, 'only members who started an import undo it');
      const answer = await admin.post(undo.action, undo.values);
      assert.equal(answer.headers.get('location'), `${leads}?done=import-undone`);
      assert.equal(await count(), 0);
      const undone = await admin.get(path);
      assert.match(readable(undone.text), /This import has been undone\./);
      assert.equal(undoOn(undone), undefined);
    });

    test('an import that only updates records is undone by members who cannot delete, one that creates records is not', async () => {
      instance().app.importWaitMs = patienceMs;
      const list = `/setup/o/${acme.slug}/data/people`;
      const actions = ['list', 'read', 'create', 'update'];
      const person = await makePerson(instance(), [
        { organization: acme, grants: [{ object: 'people', actions }] },
      ]);
      const browser = await signIn(instance(), person);
      const undoAfter = async (...ages: readonly number[]) => {
        const csv = ['email,age', ...ages.map((age, index) => `p${index}@x,${age}`)].join('\n');
        const content = Buffer.from(csv).toString('base64');
        const _csrf = await browser.token(`${list}/import`);
        const sent = { _csrf, content, key: fresh('key'), step: 'import', match: 'email' };
        const answer = await browser.post(`${list}/import`, sent);
        assert.equal(answer.headers.get('location'), `${list}?done=records-imported`, problemOf(answer));
        const page = await browser.get(`${list}?done=records-imported`);
        messages.push(/<strong>([^<]*)<\/strong> imported\./.exec(page.text)?.[1] ?? '');
        return formsOf(page).find(({ action }) => action === `${list}/undo`);
      };
      const messages: string[] = [];
      assert.equal(await undoAfter(1, 1), undefined, 'created');
      assert.equal(await undoAfter(2, 2, 2), undefined, 'created and updated');
      const undo = (await undoAfter(3, 3, 3)) ?? assert.fail('updated');
      assert.deepEqual(messages, [
        '2 records',
        '1 new record and 2 updated records',
        '0 new records and 3 updated records',
      ]);
      // The form keeps the choice after an error, and offers it only to members who can update records.
      const _csrf = await browser.token(`${list}/import`);
      const rejected = await browser.post(`${list}/import`, { _csrf, match: 'email' });
      assert.equal(rejected.status, 400);
      assert.match(rejected.text, /<option value="email" selected>/);
      const creator = await signIn(
        instance(),
        await limitedPerson(instance(), acme, ['people:list', 'people:read', 'people:create']),
      );
      assert.doesNotMatch((await creator.get(`${list}/import`)).text, /name="match"/);
      assert.equal((await browser.post(undo.action, undo.values)).status, 303);
      const { json } = await instance().call('GET /api/v1/people', { key: acme.key });
      assert.deepEqual(
        (json.data as readonly { readonly age: number }[]).map(({ age }) => age),
        [2, 2, 2],
      );
      const { id } = await tablesOf(instance().database)
        .selectFrom('crm_jobs')
        .select('id')
        .where('resource', '=', 'people')
        .orderBy('id', 'desc')
        .limit(1)
        .executeTakeFirstOrThrow();
      const page = await browser.get(`${list}/jobs/${id}`);
      assert.match(readable(page.text), /This import has been undone\./);
      assert.ok(formsOf(page).every(({ action }) => action !== `${list}/undo`));
    });

    test('a running import is canceled before its next statement, and the page says what it has written', async () => {
      const path = await start(longFile);
      await shows(path, /[1-9][\d,]* of 300,000/);
      const page = await admin.get(path);
      assert.equal(page.headers.get('refresh'), '2');
      assert.match(readable(page.text), /<h1>Import leads<\/h1>[\s\S]*Running/);
      await cancel(path);
      await shows(path, /Canceled/);
      const created = await count();
      assert.ok(created > 0 && created < longLines, String(created));
      const text = readable((await admin.get(path)).text);
      const written = created.toLocaleString('en');
      assert.ok(text.includes(`${written} records created, 0 lines with errors.`), text);
      assert.ok(text.includes(`${written} of 300,000`), text);
      assert.doesNotMatch(text, /errors\.csv/, 'no line has an error');
      assert.equal(await inputOf(path), '');
    });

    test('a waiting import is canceled', async () => {
      await addJobs('running', 1);
      const path = await start('last_name\nAda\n');
      await shows(path, /Waiting/);
      await cancel(path);
      await shows(path, /Canceled/);
      assert.deepEqual([await count(), await inputOf(path)], [0, '']);
    });

    test('an import stops when the member is removed', async () => {
      const person = await makePerson(instance(), [{ organization: acme }]);
      const path = await start(longFile, await signIn(instance(), person));
      await shows(path, /[1-9][\d,]* of 300,000/);
      await transaction(instance().database, (tables) =>
        removeMember(tables, command(instance()), acme.id, person.id),
      );
      await shows(path, /Failed/);
      const created = await count();
      assert.ok(created > 0 && created < longLines, String(created));
      const page = await admin.get(path);
      assert.match(problemOf(page), /Missing or invalid credentials/);
      const text = readable(page.text);
      assert.ok(text.includes(`${created.toLocaleString('en')} records created, 0 lines with errors.`), text);
      assert.equal(undoOn(page), undefined);
    });

    test('an import stops when the member’s grants are limited to a scope', async () => {
      const grants = ['create', 'list', 'read', 'update'].map((action) => `leads:${action}`);
      const person = await limitedPerson(instance(), acme, grants);
      const path = await start(longFile, await signIn(instance(), person));
      await shows(path, /[1-9][\d,]* of 300,000/);
      await sql`update crm_grants set action = 'read:own' where organization_id = ${acme.id}::bigint and action = 'read'
      and profile_id = (select id from crm_profiles where organization_id = ${acme.id}::bigint and name = ${person.profile})`.execute(
        tablesOf(instance().database),
      );
      await shows(path, /Failed|Completed/);
      assert.match(
        problemOf(await admin.get(path)),
        /The records or fields that you are allowed to access have changed/,
      );
      const german = await admin.get(path, { 'accept-language': 'de' });
      assert.equal(problemOf(german), 'Sie sind dazu nicht berechtigt.');
      assert.ok((await count()) < longLines);
    });

    test('a file that is submitted twice at the same time is imported once', async () => {
      instance().app.importWaitMs = patienceMs;
      const key = fresh('key');
      const answers = await Promise.all([1, 2].map(() => confirm('last_name\nTwice\n', admin, key)));
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [303, 400]);
      assert.equal(await count(), 1);
    });

    test('the form explains that too many jobs are waiting', async () => {
      await addJobs('queued', 10);
      const answer = await confirm('last_name\nAda\n');
      assert.equal(answer.status, 429);
      assert.match(problemOf(answer), /10 jobs of the organization are already waiting/);
      const again = formsOf(answer).find(({ action }) => action === `${leads}/import`) ?? assert.fail();
      assert.equal(Buffer.from(again.values.content ?? '', 'base64').toString(), 'last_name\nAda\n');
      await sql`delete from crm_jobs where organization_id = ${acme.id}::bigint`.execute(
        tablesOf(instance().database),
      );
      instance().app.importWaitMs = patienceMs;
      const imported = await admin.post(again.action, { ...again.values, step: 'import' });
      assert.equal(imported.headers.get('location'), `${leads}?done=records-imported`, problemOf(imported));
    });

    test('administrators see imports among the jobs, in their language', async () => {
      const path = await start('last_name,lead_score\nAda,x\n');
      await shows(path, /Completed/);
      const page = await admin.get(`/setup/o/${acme.slug}/jobs`);
      assert.match(readable(page.text), new RegExp(`<a[^>]* href="${path}"[^>]*>Import leads</a>`));
      const german = await admin.get(`/setup/o/${acme.slug}/jobs`, { 'accept-language': 'de' });
      assert.match(readable(german.text), />Leads importieren<\/a>/);
    });

    test('other members who can create records see the progress, but not the lines', async () => {
      const path = await start('last_name,lead_score\nAda,x\n');
      await shows(path, /Completed/);
      const personWith = async (...grants: string[]) =>
        signIn(instance(), await limitedPerson(instance(), acme, grants));
      const writer = await personWith('leads:list', 'leads:read', 'leads:create');
      const seen = readable((await writer.get(path)).text);
      assert.match(seen, /Completed[\s\S]*1 of 1/);
      assert.doesNotMatch(seen, /lead_score/);
      assert.equal((await writer.get(`${path}/errors.csv`)).status, 404);
      const reader = await personWith('leads:list', 'leads:read');
      for (const page of [path, `${path}/errors.csv`])
        assert.equal((await reader.get(page)).status, 404, page);
      assert.equal((await admin.get(path.replace('/leads/', '/accounts/'))).status, 404);
      for (const request of [`GET /api/v1/jobs/${idOf(path)}`, `POST /api/v1/jobs/${idOf(path)}/cancel`])
        assert.equal((await instance().call(request, { key: acme.key })).status, 404, request);
    });

    test('an erasure finds a person in a file that is waiting, and clears it', async () => {
      await addJobs('running', 1);
      const path = await start('last_name,email\nQuartermain,zebulon@example.com\n');
      const { database, resources } = instance();
      const tables = tablesOf(database);
      const erasure = createErasure(resources);
      const request = { organization: acme.id, records: [], texts: ['zebulon@example.com'] };
      const found = await erasure.find({ run: async (query) => (await query.execute(tables)).rows }, request);
      const actor = { kind: 'command', id: null, name: null, requestId: null, audited: true } as const;
      await database.schedule(() => erasure.erase(tables, actor, request, found));
      assert.equal(await inputOf(path), '');
      await sql`delete from crm_jobs where organization_id = ${acme.id}::bigint and action = 'other'`.execute(
        tables,
      );
      await shows(path, /Failed/);
      assert.match(problemOf(await admin.get(path)), /The input of the job was erased/);
      const german = await admin.get(path, { 'accept-language': 'de' });
      assert.match(problemOf(german), /Die Eingabe des Auftrags wurde gelöscht/);
      assert.equal(await count(), 0);
    });
  },
  { sources: await sourcesWith(ownLeads, people) },
);
