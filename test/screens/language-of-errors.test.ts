// Errors are in the browser's language: error pages, permissions, and the errors of forms, lists and imports. The API's errors
// stay in English.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type Expectation, errors, type IssueReason, reasonKey } from '../../engine/errors.ts';
import { apiPrefix } from '../../engine/http/index.ts';
import { NameError } from '../../engine/tables/index.ts';
import { IdentityError } from '../../plugins/access/identity/identity-error.ts';
import type { Grant } from '../../plugins/access/profiles/grants.ts';
import type { Language } from '../../plugins/admin-ui/shell/catalogue.ts';
import { messageIn } from '../../plugins/admin-ui/shell/errors/error-message.ts';
import { issueMessageIn } from '../../plugins/admin-ui/shell/errors/issue-message.ts';
import { administratorOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { assertGerman, namesIn } from '../support/german.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { makePerson } from '../support/people.ts';
import { until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';

const german = { 'accept-language': 'de' };

/** A resource with a field of each type and with each rule. */
const parcels = {
  file: 'resources/parcels.yaml',
  text: `singular: parcel
description: Parcels.
common: all
fields:
  code: { type: string, required: true, unique: true, max_length: 10, description: Code. }
  lot: { type: integer, required: true, description: Lot. }
  slug: { type: string, pattern: '^[a-z]+$', min_length: 3, description: Slug. }
  tag: { type: string, pattern: '^[a-z]+$', message: Tags are lower case., description: Tag. }
  size: { type: string, enum: [S, M, L], closed: true, default: S, description: Size. }
  stage:
    type: string
    enum: [new, sent, lost]
    default: new
    closed: true
    initial: [new]
    transitions: { new: [sent] }
    description: Stage.
  email: { type: string, format: email, description: Email. }
  site: { type: string, format: url, description: Site. }
  call: { type: string, format: phone, description: Call. }
  zone: { type: string, format: iana_timezone, description: Zone. }
  account: { type: string, format: iban, description: Account. }
  country: { type: string, format: country, description: Country. }
  weight: { type: integer, nullable: true, min: 1, max: 30, description: Weight. }
  count: { type: integer, description: Count. }
  total: { type: int64, description: Total. }
  rate: { type: number, description: Rate. }
  sent_at: { type: timestamp, nullable: true, description: Sent at. }
  due: { type: date, nullable: true, description: Due. }
  price: { type: money, currency: EUR, nullable: true, description: Price. }
  marks: { type: list, of: string, max_items: 2, description: Marks. }
  numbers: { type: list, of: integer, description: Numbers. }
  data: { type: json, nullable: true, description: Data. }
filters: [{ field: weight, operators: [gte] }, { field: sent_at, operators: [gt] }]
`,
};

test('errors of the API have German messages with their parameters', () => {
  const messages = [
    [errors.forbidden('leads', 'read'), 'Ihr Profil enthält das Recht leads:read nicht.'],
    [errors.locked('invoice'), 'Dieser Datensatz ist gesperrt und kann nicht geändert werden.'],
    // A text of the definition.
    [errors.locked('invoice', 'Sent invoices do not change.'), 'Sent invoices do not change.'],
    [
      errors.mergeNotUndoable({ kind: 'tooOld', days: 30 }),
      'Die Zusammenführung kann nicht rückgängig gemacht werden: Die Datensätze wurden nicht in den letzten 30 Tagen zusammengeführt.',
    ],
    [errors.bulkTooLarge(10_000), 'Die Filter finden mehr als 10.000 Datensätze. Fügen Sie Filter hinzu.'],
    [
      errors.importInterrupted(1200),
      'Der Import wurde unterbrochen, nachdem mindestens 1.200 Zeilen verarbeitet wurden. Bereits angelegte oder aktualisierte Datensätze bleiben erhalten. Prüfen Sie die Liste, bevor Sie den Rest der Datei importieren.',
    ],
    [errors.rejectedByModule('The lead is blocked', 'Call first.'), 'The lead is blocked. Call first.'],
    [errors.rejectedByModule('The lead is blocked', undefined), 'The lead is blocked'],
    [errors.importInterrupted(0), /^Der Import wurde unterbrochen\. Bereits angelegte/],
    [errors.importTooSlow(60), /^Der Import hat länger als 60 Minuten gedauert\./],
    [errors.customFieldExists('size', false), /„size“ existiert bereits\. Wählen Sie einen anderen Namen\.$/],
    [errors.customFieldExists('size', true), /„size“ existiert bereits\. Es wurde gelöscht/],
    [
      errors.customFieldsTooLarge(10, 'leads'),
      'Die Eigenschaften der eigenen Felder für leads, auch der gelöschten, würden zusammen 10 Bytes überschreiten. Kürzen Sie Hilfetexte oder Wertelisten.',
    ],
    [errors.ambiguousMatch(['phone', 'mobile']), /denselben Wert: phone, mobile\./],
    [errors.duplicateInBatch(['code', 'lot']), 'Mehrere Datensätze haben denselben Wert: code, lot.'],
    [errors.outsideScope('leads', 'update'), /Dafür benötigen Sie das Recht leads:update\.$/],
    [errors.quotaExceeded(10, 'records'), /hat ihr Limit von 10 Datensätzen erreicht/],
    [errors.quotaExceeded(10, 'megabytes'), /hat ihr Limit von 10 MB für Datensätze erreicht/],
    [errors.quotaExceeded(10, 'customFields', 'leads'), /Limit von 10 eigenen Feldern für leads erreicht/],
    [errors.mergeConflict('leads', []), /^Mehrere Datensätze in leads hätten dieselben eindeutigen Werte\./],
    [errors.mergeConflict('leads', ['code', 'lot']), /^Mehrere Datensätze in leads .*Wert: code, lot\./],
    [
      errors.mergeNotUndoable({ kind: 'notInTrash', id: '7' }),
      /: Der Datensatz 7 liegt nicht im Papierkorb\.$/,
    ],
    [errors.mergeNotUndoable({ kind: 'exists', id: '7' }), /: Der Datensatz 7 existiert\.$/],
    [errors.mergeNotUndoable({ kind: 'fieldsChanged', resource: 'leads' }), /: Die Felder von leads wurden/],
    [
      errors.mergeNotUndoable({ kind: 'notWritable' }),
      /: Sie hat Felder geändert, die Sie nicht ändern dürfen/,
    ],
    [errors.mergeNotUndoable({ kind: 'missingReference' }), /: Ein Datensatz, auf den der andere verweist/],
    // Errors that cannot appear on pages have a message by status.
    [errors.filterRequired(), 'Die Anfrage ist ungültig.'],
    [
      errors.moduleFailed('billing', 'a hook', 'it threw'),
      'Es ist ein Fehler aufgetreten. Versuchen Sie es später erneut.',
    ],
    [errors.sendFailed(undefined), 'Es ist ein Fehler aufgetreten. Versuchen Sie es später erneut.'],
  ] as const;
  for (const [error, message] of messages) {
    if (typeof message === 'string') assert.equal(messageIn(error, 'de'), message);
    else assert.match(messageIn(error, 'de'), message);
    assert.equal(messageIn(error, 'en'), error.message);
  }
});

test('errors of names, users and passwords have German messages with their parameters', () => {
  const email = 'ada@acme.example';
  for (const [error, message] of [
    [new NameError('a', { kind: 'length', max: 30 }), 'Der Name muss 1 bis 30 Zeichen lang sein.'],
    [new NameError('b', { kind: 'characters', character: 'U+202E' }), /\(gefunden: U\+202E\)\.$/],
    [
      new IdentityError('c', { kind: 'passwordLength', min: 8, max: 256 }),
      /muss 8 bis 256 Zeichen lang sein/,
    ],
    [new IdentityError('d', { kind: 'passwordLikeUser' }), /darf nicht die E-Mail-Adresse oder der Name/],
    [new IdentityError('e', { kind: 'passwordTooCommon' }), /^Dieses Passwort ist zu verbreitet\./],
    [new IdentityError('f', { kind: 'invalidEmail' }), 'Das ist keine gültige E-Mail-Adresse.'],
    [
      new IdentityError('g', { kind: 'userExists', email }),
      /E-Mail-Adresse ada@acme\.example existiert bereits/,
    ],
    [
      new IdentityError('h', { kind: 'userJustAdded', email }),
      /^ada@acme\.example wurde gerade durch eine andere/,
    ],
    [new IdentityError('i', { kind: 'alreadyMember', email }), /^ada@acme\.example ist bereits Mitglied/],
    [new IdentityError('j', { kind: 'unusableLink' }), /^Dieser Link kann nicht verwendet werden/],
    [new IdentityError('k', { kind: 'memberMissing' }), 'Dieses Mitglied existiert nicht.'],
    [new IdentityError('l', { kind: 'verifiedUser' }), /mit bestätigter E-Mail-Adresse nicht zurücksetzen/],
    [new IdentityError('m', { kind: 'userDisabled' }), 'Dieser Benutzer ist deaktiviert.'],
  ] as const) {
    if (typeof message === 'string') assert.equal(messageIn(error, 'de'), message);
    else assert.match(messageIn(error, 'de'), message);
    assert.equal(messageIn(error, 'en'), error.message);
  }
});

test('reasons why a value is invalid have German messages with their parameters', () => {
  const transition = { kind: 'transition', allowed: ['a', 'b'], isNew: false } as const;
  const reasons: readonly (readonly [reason: IssueReason, message: string])[] = [
    [{ kind: 'characters' }, 'Der Wert enthält Zeichen, die nicht gespeichert werden können.'],
    [{ kind: 'expected', expects: undefined }, 'Der Wert ist ungültig.'],
    [{ kind: 'min', limit: 3 }, 'Geben Sie mindestens 3 ein.'],
    [{ kind: 'max', limit: 3 }, 'Geben Sie höchstens 3 ein.'],
    [
      {
        kind: 'rules',
        reasons: [
          { kind: 'closed', values: ['x', 'y'] },
          { kind: 'pattern', pattern: '^z$' },
        ],
      },
      'Wählen Sie einen dieser Werte: x, y. Der Wert entspricht nicht dem Muster ^z$.',
    ],
    [{ kind: 'notMember' }, 'Diese Person ist kein Mitglied der Organisation.'],
    [
      { kind: 'duplicate', isCombination: true },
      'Ein anderer Datensatz hat in diesen Feldern dieselben Werte.',
    ],
    [{ kind: 'duplicate', isCombination: false }, 'Ein anderer Datensatz hat denselben Wert.'],
    [
      { ...transition, previous: 'p', value: 'v' },
      'Eine Änderung von „p“ in „v“ ist nicht möglich. Möglich: a, b.',
    ],
    [
      { ...transition, value: 'v' },
      'Solange das Feld leer ist, ist eine Änderung in „v“ nicht möglich. Möglich: a, b.',
    ],
    [
      { ...transition, previous: 'p', value: undefined, allowed: [] },
      'Der Wert „p“ kann nicht entfernt werden. Der Wert kann nicht geändert werden.',
    ],
    [
      { ...transition, value: 'v', isNew: true },
      'Ein neuer Datensatz kann nicht den Wert „v“ haben. Möglich: a, b.',
    ],
    [
      { ...transition, value: undefined, isNew: true },
      'Ein neuer Datensatz benötigt hier einen Wert. Möglich: a, b.',
    ],
  ];
  const expectations: readonly (readonly [expects: Expectation, message: RegExp])[] = [
    [{ type: 'boolean' }, /true oder false/],
    [{ type: 'currency' }, /Währungscode nach ISO 4217/],
    [{ type: 'customValues' }, /Werte der eigenen Felder/],
    [{ type: 'integer', min: 1, max: 9 }, /ganze Zahl von 1 bis 9/],
    [{ type: 'list' }, /^Die Liste enthält ungültige Werte/],
    [{ type: 'member' }, /^Wählen Sie ein Mitglied/],
    [{ type: 'money', currency: 'CHF' }, /12\.50 CHF/],
    [{ type: 'record' }, /^Wählen Sie einen Datensatz aus\.$/],
    [{ type: 'recordOf', resources: ['leads', 'accounts'] }, /aus: leads, accounts\.$/],
    [{ type: 'records', max: 5 }, /höchstens 5 Datensätze/],
    [{ type: 'string' }, /^Geben Sie einen Text ein\.$/],
    [{ type: 'text', maxLength: 500 }, /höchstens 500 Zeichen/],
  ];
  const messageOf = (reason: IssueReason, language: Language) =>
    issueMessageIn({ field: 'x', message: 'x is wrong', [reasonKey]: reason }, language);
  for (const [reason, message] of reasons) {
    assert.equal(messageOf(reason, 'de'), message);
    assert.equal(messageOf(reason, 'en'), 'x is wrong');
  }
  for (const [expects, message] of expectations)
    assert.match(messageOf({ kind: 'expected', expects }, 'de'), message);
  // A text of a definition or a module.
  assert.equal(messageOf({ kind: 'message' }, 'de'), 'x is wrong');
});

onBothDrivers(
  'the language of errors',
  (instance) => {
    let acme: Organization;
    let admin: Visitor;
    let names: ReadonlySet<string>;
    const path = '/setup/o/acme/data/parcels';
    before(async () => {
      names = namesIn(instance(), [
        'acme',
        'admin',
        'admin@acme.example',
        'taken',
        'new',
        'Tags are lower case.',
      ]);
      acme = await instance().organization('acme');
      admin = await signIn(instance(), administratorOf(acme));
    });

    /** Submits a form and returns the errors beside its fields, by name. */
    const errorsOf = ({ text }: Answer): Readonly<Record<string, string>> =>
      Object.fromEntries(
        [...text.matchAll(/id="notes-([^"]*)"><p class="error">([^<]*)</g)].map(
          ([, name = '', error = '']) => [name, readable(error)],
        ),
      );
    const create = async (fields: Readonly<Record<string, string>>, headers = german) => {
      const _csrf = await admin.token(`${path}/new`);
      return admin.post(`${path}/new`, { _csrf, stage: 'new', size: 'S', lot: '1', ...fields }, headers);
    };

    /** Returns the pages with the errors of a form, in German and in English. */
    const rejected = async (fields: Readonly<Record<string, string>>) => {
      const page = await create(fields);
      assert.equal(page.status, 400, page.text);
      assert.equal(problemOf(page), 'Einige Felder sind ungültig.');
      assertGerman(page, names);
      return { de: errorsOf(page), en: errorsOf(await create(fields, { 'accept-language': 'en' })) };
    };
    const wholeNumber = 'Geben Sie eine ganze Zahl von -2147483648 bis 2147483647 ein.';

    test('values that violate a rule or do not have the type of their field', async () => {
      const { de, en } = await rejected({
        ...{ code: 'x'.repeat(11), slug: 'AB', tag: 'A', size: 'XL', email: 'ada', site: 'ada' },
        ...{
          call: 'ada',
          zone: 'Mars',
          account: 'DE1',
          country: 'XX',
          weight: '0',
          count: '1.5',
          total: 'many',
        },
        ...{
          rate: 'much',
          sent_at: 'now',
          due: 'soon',
          price: 'cheap',
          marks: 'a\nb\nc',
          numbers: 'x',
          data: 'y',
        },
      });
      assert.deepEqual(de, {
        code: 'Geben Sie höchstens 10 Zeichen ein.',
        slug: 'Geben Sie mindestens 3 Zeichen ein.',
        // The message in the definition.
        tag: 'Tags are lower case.',
        size: 'Wählen Sie einen dieser Werte: S, M, L.',
        email: 'Geben Sie eine gültige E-Mail-Adresse ein.',
        site: 'Geben Sie eine URL ein, die mit http:// oder https:// beginnt.',
        call: 'Geben Sie eine gültige Telefonnummer ein.',
        zone: 'Geben Sie eine IANA-Zeitzone ein, zum Beispiel Europe/Berlin.',
        account: 'Geben Sie eine gültige IBAN ein.',
        country: 'Geben Sie einen Ländercode nach ISO 3166 ein, zum Beispiel DE.',
        weight: 'Geben Sie mindestens 1 ein.',
        count: wholeNumber,
        total: 'Geben Sie eine ganze Zahl ein.',
        rate: 'Geben Sie eine Zahl ein.',
        sent_at: 'Geben Sie Datum und Uhrzeit ein, zum Beispiel 2026-03-01T09:30:00+01:00.',
        due: 'Geben Sie ein Datum ein, zum Beispiel 2026-03-01.',
        price: 'Geben Sie einen Betrag ein, zum Beispiel 12.50 EUR.',
        marks: 'Geben Sie höchstens 2 Werte ein.',
        numbers: wholeNumber,
        data: 'Geben Sie ein gültiges JSON-Objekt oder -Array mit höchstens 64 KiB ein.',
      });
      assert.equal(en.code, 'code must be at most 10 characters long');
      assert.equal(en.weight, 'weight must be at least 1');
      assert.equal(en.due, 'due must be a date, such as 2026-03-01');
    });

    test('missing values, patterns and maxima', async () => {
      const { de, en } = await rejected({ lot: '', slug: 'ABC', weight: '31' });
      assert.deepEqual(de, {
        lot: 'Geben Sie einen Wert ein.',
        slug: 'Der Wert entspricht nicht dem Muster ^[a-z]+$.',
        weight: 'Geben Sie höchstens 30 ein.',
      });
      assert.equal(en.lot, 'lot is required');
    });

    test('a value of another record', async () => {
      assert.equal((await create({ code: 'taken' })).status, 303);
      const page = await create({ code: 'taken' });
      assert.equal(page.status, 409);
      assert.deepEqual(errorsOf(page), { code: 'Ein anderer Datensatz hat denselben Wert.' });
      assertGerman(page, names);
    });

    test('transitions', async () => {
      const page = await create({ code: 'sent', stage: 'sent' });
      assert.equal(page.status, 409);
      assert.deepEqual(errorsOf(page), {
        stage: 'Ein neuer Datensatz kann nicht den Wert „sent“ haben. Möglich: new.',
      });
      assertGerman(page, new Set([...names, 'sent']));
    });

    test('a reference to a record that does not exist', async () => {
      const accounts = '/setup/o/acme/data/contacts';
      const _csrf = await admin.token(`${accounts}/new`);
      const fields = { _csrf, last_name: 'Lovelace', account_id: '999' };
      const page = await admin.post(`${accounts}/new`, fields, german);
      assert.equal(page.status, 400);
      assert.deepEqual(errorsOf(page), { account_id: 'Der Datensatz 999 existiert nicht.' });
      assertGerman(page, names);
    });

    test('filters', async () => {
      const page = await admin.get(`${path}?weight%5Bgte%5D=heavy`, german);
      assert.equal(page.status, 400);
      assert.equal(problemOf(page), `weight[gte]: ${wholeNumber}`);
    });

    test('an import', async () => {
      const _csrf = await admin.token(`${path}/import`);
      const content = Buffer.from('code,weight\na,0\n').toString('base64');
      const page = await admin.post(`${path}/import`, { _csrf, content, step: 'check' }, german);
      assert.match(
        readable(page.text),
        /Zeile 2: lot: Geben Sie einen Wert ein\. weight: Geben Sie mindestens 1 ein\./,
      );
      assertGerman(page, new Set([...names, '0 Datensätze anzulegen, 1 Zeile mit Fehlern.']));
    });

    test('an import whose lines are rejected when they are written, and the file with its errors', async () => {
      const file = ['code,lot,slug', 'first,1,', 'first,2,', 'taken,3,', 'second,4,ab'].join('\n');
      const content = Buffer.from(file).toString('base64');
      const _csrf = await admin.token(`${path}/import`);
      const started = await admin.post(`${path}/import`, { _csrf, content, key: 'once', step: 'import' });
      const job = started.headers.get('location') ?? '';
      let page = started;
      await until(async () => {
        page = await admin.get(job, german);
        return /Abgeschlossen/.test(page.text);
      }, 'the end of the import');
      const messages = [
        'Zeile 3: code: Ein anderer Datensatz hat denselben Wert.',
        'Zeile 4: code: Ein anderer Datensatz hat denselben Wert.',
        'Zeile 5: slug: Geben Sie mindestens 3 Zeichen ein.',
      ];
      for (const message of messages) assert.ok(readable(page.text).includes(message), readable(page.text));
      assertGerman(page, new Set([...names, '1 Datensatz angelegt, 3 Zeilen mit Fehlern.']));
      const { text } = await admin.get(`${job}/errors.csv`, german);
      const [header, ...lines] = text.trim().split('\r\n');
      assert.equal(header, 'line,error');
      assert.ok(lines.includes('4,"code: Ein anderer Datensatz hat denselben Wert."'), text);
    });

    test('error pages', async () => {
      const missing = await admin.get(`${path}/999`, german);
      assert.equal(missing.status, 404);
      assertGerman(missing, names);
      assert.match(readable(missing.text), /<h1>Nicht gefunden<\/h1>[\s\S]*Seite nicht gefunden\./);
      const expired = await admin.post(`${path}/new`, { code: 'a' }, german);
      assert.equal(expired.status, 403);
      assertGerman(expired, names);
      assert.match(readable(expired.text), /Dieses Formular ist abgelaufen/);
      const english = await admin.get(`${path}/999`);
      assert.match(readable(english.text), /<h1>Not Found<\/h1>[\s\S]*Page not found\./);
    });

    test('permissions', async () => {
      const grants: Grant[] = [{ object: 'parcels', actions: ['list', 'read'] }];
      const person = await makePerson(instance(), [{ organization: acme, grants }]);
      const reader = await signIn(instance(), person);
      const pages = [
        ['/setup/o/acme/members', 'Nur Administratoren dieser Organisation können diese Seite öffnen.'],
        [`${path}/new`, 'Ihr Profil enthält das Recht parcels:create nicht.'],
        ['/setup/o/other', 'Sie sind kein Mitglied dieser Organisation.'],
      ] as const;
      for (const [url, message] of pages) {
        const page = await reader.get(url, german);
        assert.equal(page.status, 403);
        assert.ok(readable(page.text).includes(`<p>${message}</p>`), page.text);
        assertGerman(page, new Set([...names, person.email]));
      }
    });

    test('a name and a password', async () => {
      const post = async (form: string, fields: Readonly<Record<string, string>>) => {
        const _csrf = await admin.token('/setup/me');
        return admin.post(`/setup/me/${form}`, { _csrf, ...fields }, german);
      };
      const { password } = administratorOf(acme);
      const short = await post('password', { current: password, new: 'short', again: 'short' });
      assert.equal(problemOf(short), 'Das Passwort muss 8 bis 256 Zeichen lang sein.');
      const long = await post('name', { name: 'x'.repeat(300) });
      assert.match(problemOf(long), /^Der Name muss 1 bis \d+ Zeichen lang sein\.$/);
    });

    test('the API responds in English, and without the reasons', async () => {
      const { status, json } = await instance().call(`POST ${apiPrefix}/parcels`, {
        key: acme.key,
        headers: german,
        body: { weight: 0 },
      });
      assert.equal(status, 400);
      assert.deepEqual(json.fields, [
        { field: 'code', message: 'code is required' },
        { field: 'lot', message: 'lot is required' },
        { field: 'weight', message: 'weight must be at least 1' },
      ]);
    });
  },
  { sources: await sourcesWith(parcels) },
);
