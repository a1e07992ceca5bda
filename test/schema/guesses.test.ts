// A migration requires explicit intent: nothing is renamed, retargeted or removed from partners on the basis
// of a guess.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { readConfig } from '../../app/config.ts';
import { modelOf } from '../../app/instance.ts';
import { modules } from '../../app/modules.ts';
import { loadResources } from '../../app/serve/build.ts';
import { UserError } from '../../engine/errors.ts';
import { createMigration } from '../../engine/schema/create.ts';
import { drivers } from '../support/instance.ts';
import { type Model, modelWith } from '../support/models.ts';
import { type OwnFiles, ownFiles } from '../support/own-files.ts';
import { crm, crmJson, migratedStorage, project, type Storage, serve } from '../support/process.ts';
import { patient } from '../support/promised.ts';

const timezone = /^ {2}timezone: .*$/m;
const zone = '  zone: { type: string, description: "The same, one would think." }';
const singular = (name: string) => `singular: ${name}\ncommon: all\nfields:\n  title: { type: string }\n`;

for (const driver of drivers) {
  describe(`a removed field and a similar new field (${driver})`, () => {
    let storage: Storage;
    const own = ownFiles();
    before(async () => {
      storage = await migratedStorage(driver);
    });
    after(async () => {
      await storage.remove();
      own.remove();
    });

    test('fails and lists the options; with --allow-drop, drops the old field and creates the new one empty', async () => {
      const environment = {
        ...patient,
        ...storage.environment,
        ...own.environment,
        MIGRATE_ON_START: 'true',
      };
      const first = await serve(environment);
      const key = String(first.printed.key);
      const lead = { company: 'Kept', timezone: 'Europe/Berlin' };
      const made = await first.call('POST /api/v1/leads', { key, body: lead });
      assert.equal(made.status, 201, made.text);
      const path = `GET /api/v1/leads/${made.json.id}`;
      first.signal('SIGTERM');
      assert.equal((await first.ended).code, 0);

      own.edit('leads', timezone, zone);
      const migrations = own.migrations();
      const refused = await crm(['migrate', '--create', 'zone'], environment);
      assert.deepEqual([refused.code, refused.stdout], [1, '']);
      for (const line of [
        /^crm: \S*leads\.yaml {2}"timezone" was removed, so the values of leads\.timezone would be dropped\. Choose one:$/m,
        /^ {2}timezone: \{ type: string, retired: true \} {4}in \S*leads\.yaml: .*$/m,
        /^ {2}--allow-drop leads\.timezone {4}.*$/m,
        /^ {2}renamed_from: timezone {4}in \S*leads\.yaml at "zone": rename the field\nNothing was written\.\n$/m,
      ]) {
        assert.match(refused.stderr, line);
      }
      assert.deepEqual(own.migrations(), migrations, 'nothing was written');

      const { statements } = await crmJson(
        ['migrate', '--create', 'zone', '--allow-drop', 'leads.timezone'],
        environment,
      );
      assert.deepEqual(statements, [
        'alter table "leads" drop column "timezone";',
        `alter table "leads" add "zone" text collate "C" not null default '';`,
      ]);
      const second = await serve(environment);
      const { json } = await second.call(path, { key });
      assert.deepEqual([json.company, json.zone, 'timezone' in json], ['Kept', '', false]);
      assert.doesNotMatch(JSON.stringify(json), /Berlin/);
      second.signal('SIGTERM');
      assert.equal((await second.ended).code, 0);
    });
  });
}

describe('crm check and crm migrate --create', { concurrency: 2 }, () => {
  const refusals: readonly [name: string, edit: (own: OwnFiles) => void, message: RegExp][] = [
    [
      'a reference to another resource, whatever may be lost',
      (own) => own.edit('opportunities', 'to: accounts', 'to: contacts'),
      /opportunities\.yaml:\d+:3 {2}"account_id" refers to accounts and cannot refer to contacts, because .*Declare a new field/,
    ],
    [
      'a field that a partner endpoint writes',
      (own) => {
        own.edit('leads', /^ {2}company: .*\n/m, '');
        own.edit('leads', /^ {2}- \{ field: company,.*\n/m, '');
        own.edit('leads', /^search: .*$/m, 'search: [email]');
      },
      /leads\.yaml {2}"company" of leads is missing, but webhooks\/inbound-leads\/index\.ts needs it\n/,
    ],
    [
      'transitions, closed values, checks and locks of fields that partner endpoints write',
      (own) => {
        own.edit(
          'leads',
          /^ {4}default: Open - Not Contacted\n/m,
          '    closed: true\n    transitions: { Open - Not Contacted: [Working - Contacted] }\n$&',
        );
        own.edit(
          'leads',
          /^search: /m,
          'checks: [{ that: company != "x", fields: [company], message: No. }]\nlocked: company == "x"\n$&',
        );
        own.edit('leads', /^ {4}suggested:$/m, '    closed: true\n    enum:');
        own.edit('opportunities', /Closed Won, /, '');
        own.edit('opportunities', /^( {2}stage:\n {4}type: string\n)/m, '$1    closed: true\n');
      },
      /"source" must not be "closed": webhooks\/inbound-leads[\s\S]*no check of leads can read "company" \(company != "x"\): webhooks\/inbound-leads\/index\.ts writes it\n\S*leads\.yaml {2}leads cannot have "locked": webhooks\/inbound-leads\/index\.ts writes it[\s\S]*"status" must not have "transitions": webhooks\/payments[\s\S]*"stage" must accept "Closed Won": webhooks\/payments/,
    ],
    [
      'a resource that a payment hook writes',
      (own) => own.drop('opportunities'),
      /the resource "opportunities" is missing, but webhooks\/payments\/payments\.ts \(partners\.payments in config\.yaml\) needs it\n/,
    ],
  ];
  for (const [name, edit, message] of refusals) {
    test(`reject ${name}`, async () => {
      const own = ownFiles();
      edit(own);
      const migrations = own.migrations();
      for (const command of [['check'], ['migrate', '--create', 'x']]) {
        const { code, stdout, stderr } = await crm(command, own.environment);
        assert.deepEqual([code, stdout], [1, ''], stderr);
        assert.match(stderr, message);
      }
      assert.deepEqual(own.migrations(), migrations);
      own.remove();
    });
  }
});

describe('a removed field of each type', () => {
  let model: Model;
  const types = ['string', 'integer', 'int64', 'number', 'boolean', 'timestamp', 'date'];
  /** The keys of fields whose types have other keys, too. */
  const others = [
    'type: text',
    'type: list',
    'type: list, of: integer',
    'type: list, of: number',
    'type: json, nullable: true',
    'type: money, currency: EUR, nullable: true',
    'type: money, currency: any, nullable: true',
    'type: reference, to: leads, nullable: true',
    'type: references, to: leads',
  ];
  const file = (fields: readonly string[]) => ({ things: `common: all\nfields:\n${fields.join('\n')}` });
  before(async () => {
    model = await modelWith(drivers.at(-1) ?? 'postgresql');
    model.write(
      file([
        '  name: { type: string }',
        ...types.map((type) => `  f_${type}: { type: ${type}, nullable: true }`),
        ...others.map((keys, index) => `  g_${index}: { ${keys} }`),
      ]),
    );
    await model.create();
  });
  after(() => model.close());

  test("suggests the field's own type for keeping its values", async () => {
    model.write(file(['  name: { type: string }']));
    const refused = await model.create().catch((cause: UserError) => cause.message);
    for (const type of types) {
      assert.ok(
        String(refused).includes(`  f_${type}: { type: ${type}, nullable: true, retired: true }`),
        `${type}: ${refused}`,
      );
    }
    for (const [index, keys] of others.entries())
      assert.ok(String(refused).includes(`  g_${index}: { ${keys}, retired: true }`), `${keys}: ${refused}`);
  });

  test("suggests the field's group, and says when its values are visible again", async () => {
    const note = '  note: { type: text, group: consent';
    const kept = [
      '  name: { type: string }',
      ...types.map((type) => `  f_${type}: { type: ${type}, nullable: true }`),
      ...others.map((keys, index) => `  g_${index}: { ${keys} }`),
    ];
    model.write(file([...kept, `${note} }`]));
    await model.create();
    model.write(file(kept));
    await assert.rejects(model.create(), ({ message }: UserError) =>
      message.includes('  note: { type: text, group: consent, retired: true }'),
    );
    model.write(file([...kept, `${note}, retired: true }`]));
    await model.create();
    model.write(file([...kept, '  note: { type: text }']));
    const { api } = await model.change();
    assert.deepEqual(
      api.map(({ name, text }) => [name, text]),
      [['things.note', 'is visible again, with its stored values']],
    );
  });
});

describe("a migration's statements", () => {
  const create = async (own: OwnFiles, drop: readonly string[]) => {
    const config = readConfig(own.environment);
    return (await createMigration(config, modelOf(await loadResources(config)), 'x', { drop })).statements;
  };
  const changes: readonly [
    name: string,
    edit: (own: OwnFiles) => void,
    refused: RegExp | undefined,
    drop: string[],
    made: RegExp[],
  ][] = [
    [
      'a field removed',
      (own) => own.edit('leads', timezone, ''),
      /"timezone" was removed, .*\n {2}timezone: \{ type: string, retired: true \} .*\n {2}--allow-drop leads\.timezone .*\nNothing/,
      ['leads.timezone'],
      [/^alter table "leads" drop column "timezone";$/],
    ],
    [
      'a reference removed and one like it added',
      (own) => {
        own.edit('opportunities', 'account_id: { type', 'payer_id: { type');
        own.edit('opportunities', 'field: account_id', 'field: payer_id');
        own.edit('opportunities', '[stage, account_id,', '[stage, payer_id,');
      },
      /"account_id" was removed.*\n {2}account_id: \{ type: reference, to: accounts, nullable: true, retired: true \}.*\n.*\n {2}renamed_from: account_id .* at "payer_id"/,
      ['opportunities.account_id'],
      [
        /drop column "account_id"/,
        /add "payer_id" bigint/,
        /add constraint "opportunities_payer_id_foreign"/,
      ],
    ],
    [
      'a timestamp removed and one like it added',
      (own) => {
        own.edit('opportunities', 'close_date:', 'closing:');
        own.edit('opportunities', 'field: close_date', 'field: closing');
        own.edit('opportunities', 'owner_id, close_date,', 'owner_id, closing,');
      },
      /^\S*opportunities\.yaml {2}"close_date" was removed.*\n {2}close_date: \{ type: timestamp, nullable: true, retired: true \}/,
      ['opportunities.close_date'],
      [/drop column "close_date", drop column "close_date_offset"/, /add "closing" timestamptz/],
    ],
    [
      'a resource removed and one like it added',
      (own) => {
        own.drop('cases');
        own.add('tickets', singular('ticket'));
      },
      /^the resource "cases" was removed, so its records would be dropped\. Choose one:\n {2}renamed_from: cases {4}in the file of tickets: .*\n {2}--allow-drop cases /,
      ['cases'],
      [/^drop table if exists "cases"/, /^create table "tickets"/],
    ],
    ['a drop of what is there', () => {}, undefined, ['leads.timezone'], []],
    [
      'another default order, whose indexes have the names that they had',
      (own) => own.edit('leads', 'sort: { by: created_at', 'sort: { by: updated_at'),
      undefined,
      [],
      [/^drop index "leads_status_index"/, /^create index "leads_status_index" .*"updated_at"/],
    ],
  ];
  for (const [name, edit, refused, drop, made] of changes) {
    test(name, async () => {
      const own = ownFiles();
      try {
        edit(own);
        const before = own.migrations();
        if (refused !== undefined) {
          await assert.rejects(
            create(own, []),
            (error) => error instanceof UserError && refused.test(error.message),
          );
          assert.deepEqual(own.migrations(), before, 'nothing was written');
        }
        if (made.length === 0) {
          if (drop.length > 0)
            await assert.rejects(create(own, drop), /no removed field, resource or table has this name/);
          return;
        }
        const statements = await create(own, drop);
        assert.doesNotMatch(statements.join('\n'), /\brename\b/i);
        for (const each of made) {
          assert.ok(
            statements.some((statement) => each.test(statement)),
            `${each} in ${statements.join('\n')}`,
          );
        }
        assert.deepEqual(await create(own, []), [], 'the migration contains all of them');
      } finally {
        own.remove();
      }
    });
  }
});

for (const { file } of modules.flatMap(({ needs = [] }) => needs)) {
  test(`${file} is part of the project`, () => {
    assert.match(readFileSync(join(project, file.split(' ')[0] ?? ''), 'utf8'), /FieldRequirements\b/);
  });
}
