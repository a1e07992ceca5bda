// `crm export` and `crm import`: files, one-line error messages and exit codes.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import { writeOutput } from '../../engine/modules/index.ts';
import { drivers, temporaryFolder } from '../support/instance.ts';
import {
  assertRefused,
  crm,
  crmJson,
  crmTable,
  type Environment,
  migratedStorage,
  type Storage,
} from '../support/process.ts';

const driver = drivers.at(-1) ?? 'embedded';

describe(`records on the command line (${driver})`, () => {
  const folder = temporaryFolder();
  const file = (name: string) => join(folder.path, name);
  let storage: Storage;
  let environment: Environment;
  before(async () => {
    storage = await migratedStorage(driver);
    environment = storage.environment;
    for (const slug of ['acme', 'beta']) await crmJson(['org', 'create', slug], environment);
  });
  after(async () => {
    folder.remove();
    await storage.remove();
  });

  test('phone numbers are compared with the country of the organization', async () => {
    await crmJson(['org', 'create', 'german'], environment);
    await crmJson(['org', 'phone-region', 'german', 'DE'], environment);
    writeFileSync(file('phone.ndjson'), '{"last_name":"Anna","phone":"+49 171 1234567"}\n');
    await crmJson(['import', 'leads', file('phone.ndjson'), '--org', 'german'], environment);
    const filter = ['--filter', 'phone=0171 1234567', '--format', 'ndjson'];
    const { stdout } = await crm(['export', 'leads', '--org', 'german', ...filter], environment);
    assert.match(stdout, /"last_name":"Anna"/);
  });

  test('exported records can be imported unchanged, and the file is readable only by its owner', async () => {
    const names = ['Ada', '"Grüße", 世界', ''];
    writeFileSync(
      file('in.ndjson'),
      names.map((last_name) => `${JSON.stringify({ last_name, status: '' })}\n`).join(''),
    );
    const imported = await crmJson(['import', 'leads', file('in.ndjson'), '--org', 'acme'], environment);
    assert.deepEqual([imported.created, imported.failed], [3, 0]);
    const args = ['export', 'leads', file('out.csv'), '--org', 'acme', '--filter', 'sort=id'];
    const { bytes } = await crmJson(args, environment);
    assert.equal(bytes, statSync(file('out.csv')).size);
    assert.equal(statSync(file('out.csv')).mode & 0o777, 0o600);
    const { code, stdout } = await crm(['import', 'leads', file('out.csv'), '--org', 'beta'], environment);
    assert.deepEqual([code, stdout.split('\n')[0]], [0, '3 created, 0 updated, 0 failed.']);
    const copied = await crm(
      ['export', 'leads', '--org', 'beta', '--format', 'ndjson', '--filter', 'sort=id'],
      environment,
    );
    const records = copied.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    assert.deepEqual(
      records.map(({ last_name: name, status }) => [name, status]),
      names.map((name) => [name, '']),
    );
  });

  test('a repeated --filter exports the records with any of its values', async () => {
    await crmJson(['org', 'create', 'filtered'], environment);
    const statuses = ['New', 'Lost', 'Won', 'a=b'];
    writeFileSync(file('statuses.ndjson'), statuses.map((status) => `{"status":"${status}"}\n`).join(''));
    await crmJson(['import', 'leads', file('statuses.ndjson'), '--org', 'filtered'], environment);
    const exported = async (...filters: readonly string[]) => {
      const args = ['sort=id', ...filters].flatMap((filter) => ['--filter', filter]);
      const { stdout } = await crm(
        ['export', 'leads', '--org', 'filtered', '--format', 'ndjson', ...args],
        environment,
      );
      return stdout
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { status: string }).status);
    };
    assert.deepEqual(await exported('status=New', 'status=Won'), ['New', 'Won']);
    assert.deepEqual(await exported('status=Won', 'status=a=b', 'status=New'), ['New', 'Won', 'a=b']);
  });

  test('files of other programs: another delimiter, other columns and another extension', async () => {
    await crmJson(['org', 'create', 'moved'], environment);
    const names = async () => {
      const args = ['export', 'leads', '--org', 'moved', '--format', 'ndjson', '--filter', 'sort=id'];
      const { stdout } = await crm(args, environment);
      return Array.from(stdout.matchAll(/"last_name":"(.*?)".*?"company":"(.*?)"/g), ([, ...found]) => found);
    };
    writeFileSync(file('moved.csv'), 'Name=Nachname;company;Alter;Stadt\n"Ada; L";x;36;y\n');
    const columns = ['Name=Nachname=last_name', 'Alter='].flatMap((column) => ['--column', column]);
    const { stdout, code } = await crm(
      ['import', 'leads', file('moved.csv'), '--org', 'moved', '--delimiter', 'semicolon', ...columns],
      environment,
    );
    assert.deepEqual([code, stdout], [0, '1 created, 0 updated, 0 failed.\nIgnored columns: Alter, Stadt\n']);
    assert.deepEqual(await names(), [['Ada; L', 'x']]);
    writeFileSync(file('moved.JSONL'), '{"last_name":"Bob","company":"y"}\n');
    assert.equal(
      (await crm(['import', 'leads', file('moved.JSONL'), '--org', 'moved'], environment)).code,
      0,
    );
    const input = { input: 'last_name,company\nCy,z\n' };
    await crmJson(['import', 'leads', '-', '--format', 'csv', '--org', 'moved'], environment, input);
    assert.deepEqual(await names(), [
      ['Ada; L', 'x'],
      ['Bob', 'y'],
      ['Cy', 'z'],
    ]);
  });

  test('a failed line fails the command, and --on-error decides whether later lines are written', async () => {
    await crmJson(['org', 'create', 'partly'], environment);
    writeFileSync(file('partly.csv'), `last_name,lead_score\na,1\n${'b,x\n'.repeat(25)}c,2\n`);
    const load = (...options: string[]) =>
      crm(['import', 'leads', file('partly.csv'), '--org', 'partly', ...options], environment);
    const continued = await load();
    assert.match(
      continued.stdout,
      /^2 created, 0 updated, 25 failed\.\n(line \d+: lead_score must be .*\n){20}and 5 more lines\n$/,
    );
    const stopped = await load('--on-error', 'stop');
    assert.match(
      stopped.stdout,
      /^1 created, 0 updated, 1 failed\.\nline 3: .*\nThe import stopped at this line\. Later lines were not written\.\n$/,
    );
    assert.deepEqual([continued.code, stopped.code], [1, 1]);
  });

  test('an import that fails midway says how many lines it has written', async () => {
    await crmJson(['org', 'create', 'midway'], environment);
    writeFileSync(file('midway.csv'), `last_name\n${'a\n'.repeat(1001)}"x"y\n`);
    assertRefused(
      await crm(['import', 'leads', file('midway.csv'), '--org', 'midway'], environment),
      'Invalid CSV: line 1003: text follows a closing quote; before the error, 1000 records were created and 0 updated',
    );
  });

  test('--force replaces a file', async () => {
    writeFileSync(file('replaced.csv'), 'old');
    const args = ['export', 'leads', file('replaced.csv'), '--org', 'acme'];
    assert.equal((await crm(args, environment)).code, 1);
    assert.equal(readFileSync(file('replaced.csv'), 'utf8'), 'old');
    assert.equal((await crm([...args, '--force'], environment)).code, 0);
    assert.match(readFileSync(file('replaced.csv'), 'utf8'), /^id,/);
    const { format } = await crmJson([...args, '--force', '--format', 'ndjson'], environment);
    assert.equal(format, 'ndjson', 'regardless of the extension');
    assert.match(readFileSync(file('replaced.csv'), 'utf8'), /^\{"id":/);
  });

  test('a file is replaced only by a complete one', async () => {
    const path = file('kept.csv');
    writeFileSync(path, 'old');
    const failing = Readable.from(
      (async function* () {
        yield 'id\n';
        assert.equal(readFileSync(path, 'utf8'), 'old');
        throw new Error('the export failed');
      })(),
    );
    await assert.rejects(writeOutput(failing, { file: path }), { message: 'the export failed' });
    assert.deepEqual([readFileSync(path, 'utf8'), existsSync(`${path}.partial`)], ['old', false]);
    assert.equal(await writeOutput(Readable.from(['id\n', 'ü\n']), { file: path }), 6);
    assert.deepEqual([readFileSync(path, 'utf8'), existsSync(`${path}.partial`)], ['id\nü\n', false]);
    const unwritable = file('none/export.csv');
    await assert.rejects(writeOutput(Readable.from(['id\n']), { file: unwritable }), {
      name: 'UserError',
      message: `${unwritable}.partial: it does not exist`,
    });
  });

  describe('errors', () => {
    before(() => {
      writeFileSync(file('there.csv'), 'last_name,lead_score\na,1\nb,x\n');
      writeFileSync(file('bad.csv'), 'a,b\n1,2\n');
    });
    crmTable(
      [
        [
          'an existing file',
          {
            args: ['export', 'leads', file('there.csv')],
            says: `${file('there.csv')} already exists. Pass --force to replace it.`,
          },
        ],
        [
          '--json without a file',
          { args: ['export', 'leads', '--json'], says: '--json requires a file to write to.' },
        ],
        [
          'an unknown resource',
          { args: ['export', 'lead'], says: 'resource "lead" does not exist. Did you mean "leads"?' },
        ],
        [
          'an unknown parameter',
          {
            args: ['export', 'leads', '--filter', 'mail=x'],
            says: 'mail is not a parameter of this operation. Did you mean "email"?',
          },
        ],
        [
          'not a parameter',
          {
            args: ['export', 'leads', '--filter', 'New'],
            says: '--filter must have the form status=New, not New',
          },
        ],
        [
          'a column without a field',
          {
            args: ['import', 'leads', file('there.csv'), '--column', 'Surname'],
            says: '--column must have the form Surname=last_name, not Surname',
          },
        ],
        [
          'a missing file',
          { args: ['import', 'leads', file('none.csv')], says: `${file('none.csv')}: it does not exist` },
        ],
        [
          'an unknown format',
          { args: ['import', 'leads', '-'], says: 'cannot detect the format. Pass --format csv or ndjson.' },
        ],
        [
          'a header without fields',
          {
            args: ['import', 'leads', file('bad.csv')],
            says: 'header does not name a writable field. The first line must contain field names.',
          },
        ],
        [
          'a match field that is not unique',
          {
            args: ['import', 'leads', file('there.csv'), '--match', 'email'],
            says: 'match cannot be used, because no field is unique',
          },
        ],
      ] as [string, { args: string[]; says: string }][],
      ({ args }) => [[...args, '--org', 'acme'], environment],
      (outcome, { says }) => assertRefused(outcome, says),
    );
  });

  test('prints failed lines and exits with 1', async () => {
    const { code, stdout } = await crm(
      ['import', 'leads', file('there.csv'), '--org', 'acme', '--dry-run'],
      environment,
    );
    assert.equal(code, 1);
    assert.match(
      stdout,
      /^Dry run, nothing was written\. Result: 1 created, 0 updated, 1 failed\.\nline 3: lead_score must be/,
    );
    assert.ok(readFileSync(file('there.csv')).length > 0);
  });
});
