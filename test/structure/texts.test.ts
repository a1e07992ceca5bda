// Text catalogues: all languages have the same texts with the same parameters, and neither templates nor the modules of pages
// contain other texts.
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import handlebars from 'handlebars';
import '../../app/modules.ts';
import type { defineObject } from '../../plugins/admin-ui/shell/admin-object.ts';
import {
  type Catalogue,
  catalogues,
  defineTexts,
  htmlText,
  languages,
  ownWords,
  type Text,
  type TranslationOf,
} from '../../plugins/admin-ui/shell/catalogue.ts';
import type { FormPage } from '../../plugins/admin-ui/shell/views.ts';
import { project } from '../support/process.ts';

/** Returns the parameters and tags in a text's forms. */
function partsOf(text: Catalogue[string] | undefined): readonly string[] {
  const forms = typeof text === 'string' ? [text] : Object.values(text ?? {});
  return [...new Set(forms.flatMap((form) => form?.match(/\{\w+\}|<\/?\w+>/g) ?? []))].sort();
}

/** Returns the names of a text's parameters. */
function parametersOf(text: Catalogue[string]): readonly string[] {
  const names = partsOf(text).flatMap((part) => /^\{(\w+)\}$/.exec(part)?.[1] ?? []);
  return [...new Set([...names, ...(typeof text === 'string' ? [] : ['count'])])].sort();
}

interface TextCall {
  readonly name: string;
  readonly parameters: readonly string[];
}

/** Stands for the value of an expression in a template's HTML. */
const valueMark = '\u0001';
/** Stands for a text with tags, which must not be in an attribute. */
const markupMark = '\u0002';

/** Returns a template's own HTML, with all branches of its blocks, and its uses of catalogue texts. */
function readTemplate(source: string): { readonly html: string; readonly calls: readonly TextCall[] } {
  const calls: TextCall[] = [];
  const call = ({ params, hash }: hbs.AST.MustacheStatement) => {
    const [name] = params as readonly { readonly value?: unknown }[];
    assert.equal(typeof name?.value, 'string', 'a template names its texts literally');
    const text = textNamed(String(name?.value));
    calls.push({ name: String(name?.value), parameters: (hash?.pairs ?? []).map(({ key }) => key).sort() });
    return partsOf(text).some((part) => part.startsWith('<')) ? markupMark : valueMark;
  };
  const htmlOf = (program: hbs.AST.Program | undefined): string =>
    (program?.body ?? [])
      .map((statement) => {
        if (statement.type === 'ContentStatement') return (statement as hbs.AST.ContentStatement).value;
        if (statement.type === 'BlockStatement' || statement.type === 'DecoratorBlock') {
          const block = statement as hbs.AST.BlockStatement;
          return htmlOf(block.program) + htmlOf(block.inverse);
        }
        if (statement.type !== 'MustacheStatement') return valueMark;
        const mustache = statement as hbs.AST.MustacheStatement;
        return (mustache.path as hbs.AST.PathExpression).original === 't' ? call(mustache) : valueMark;
      })
      .join('');
  return { html: htmlOf(handlebars.parse(source)), calls };
}

/** Returns a text in English by its full name. */
function textNamed(name: string): Catalogue[string] | undefined {
  const [module = '', key = ''] = name.split('.');
  return catalogues.get(module)?.en[key];
}

const visibleAttributes = /\s(?:title|aria-label|placeholder|alt)="([^"]*)"/g;

/** Returns the words in a template that users can see and that are not from a catalogue. */
function wordsOutside(html: string): readonly string[] {
  const tags = html.match(/<[^>]*>/g) ?? [];
  const attributes = tags.flatMap((tag) => [
    ...[...tag.matchAll(visibleAttributes)].map(([, value = '']) => value),
    ...(/type="(?:submit|button|reset)"/.test(tag) ? (/\svalue="([^"]*)"/.exec(tag) ?? []).slice(1) : []),
  ]);
  return [...html.replace(/<[^>]*>/g, valueMark).split(valueMark), ...attributes]
    .map((words) => words.trim())
    .filter((words) => /\p{L}/u.test(words));
}

const templates = globSync('plugins/**/*.hbs', { cwd: project })
  .filter((path) => !path.includes('node_modules'))
  .toSorted();

describe('catalogues', () => {
  test('several modules have one', () => assert.ok(catalogues.size >= 3));

  for (const [module, texts] of catalogues) {
    for (const language of languages) {
      test(`${module} has the same texts, parameters and tags in ${language} as in English`, () => {
        assert.deepEqual(Object.keys(texts[language]), Object.keys(texts.en));
        for (const [key, text] of Object.entries(texts[language])) {
          assert.deepEqual(partsOf(text), partsOf(texts.en[key]), key);
          if (typeof text === 'string') continue;
          const { pluralCategories } = new Intl.PluralRules(language).resolvedOptions();
          assert.deepEqual(Object.keys(text).sort(), [...pluralCategories].sort(), key);
        }
      });
    }

    test(`${module} uses all of its texts`, () => {
      const [index = ''] = globSync(`{plugins,webhooks}/**/${module}/texts/index.ts`, { cwd: project });
      const folder = join(project, dirname(dirname(index)));
      const sources = globSync('**/*.{ts,hbs}', { cwd: folder })
        .filter((path) => !path.startsWith('texts/'))
        .map((path) => readFileSync(join(folder, path), 'utf8'))
        .join('\n');
      const unused = Object.keys(texts.en).filter(
        (key) => !sources.includes(`"${module}.${key}"`) && !sources.includes(`('${key}'`),
      );
      assert.deepEqual(unused, []);
    });
  }
});

/** Texts whose different English words have the same translation. */
const synonyms = ['api-keys: revoked, revoke', 'queue: state, status', 'subscriptions: changed, whenUpdated'];

test('texts with different words in English also differ in each translation', () => {
  // Articles, prepositions and plurals do not make a difference.
  const wordsOf = (text: Catalogue[string] | undefined) =>
    JSON.stringify(text)
      .toLowerCase()
      .replace(/\b(?:an?|of|the|your|for) |s\b/g, '');
  const translatedAlike = [...catalogues].flatMap(([module, texts]) =>
    languages.flatMap((language) => {
      const keysByText = new Map<string, string[]>();
      for (const [key, text] of Object.entries(texts[language])) {
        const form = JSON.stringify(text);
        keysByText.set(form, [...(keysByText.get(form) ?? []), key]);
      }
      return [...keysByText.values()]
        .filter((keys) => new Set(keys.map((key) => wordsOf(texts.en[key]))).size > 1)
        .map((keys) => `${module}: ${keys.join(', ')}`);
    }),
  );
  assert.deepEqual(translatedAlike.toSorted(), synonyms);
});

/** English words whose confusion would reverse a text's meaning, and their German counterparts. */
const counterparts: readonly (readonly [en: RegExp, de: RegExp])[] = [
  [/\bat least\b/, /mindestens/],
  [/\b(?:at most|up to)\b(?! continue)/, /höchstens|bis zu/],
  [/\b(?:greater|more) than\b/, /größer|mehr/],
  [/\b(?:less|fewer) than\b/, /kleiner|weniger/],
  [/\bafter\b/, /nach/],
  [/\b(?:before|previous|former)\b/, /vor|bisher|früher|ehemal/],
  [/\bnext\b/, /nächst|weiter/],
  [/\blast\b/, /letzt/],
  [/\bfirst\b/, /erst(?!ell)/],
  [/\bascending\b/, /aufsteigend/],
  [/\bdescending\b/, /absteigend/],
  [/\benable/, /(?<!de)aktiv|(?<!nicht )möglich/],
  [/\bdisable/, /deaktiv|nicht möglich/],
  [/\bdelete/, /lösch/],
  [/\brestore/, /wiederher|stell.* wieder her/],
  [/\brevoke/, /widerruf/],
  [/\bonly\b/, /\bnur\b|erst(?!ell)|schreibgeschützt/],
  [/\bboth\b/, /beide|sowohl/],
  [/\b(?:all|every|each)\b/, /\balle|\bjede|gegenseitig/],
  [/\boptional\b/, /optional/],
  [/\bnever\b/, /\bnie\b/],
  [/\buntil\b/, /\bbis\b/],
  [/\b(?:no|not|cannot|without)\b/, /nicht|kein|ohne|weder|niemand|\bun(?!d|ter)/],
];
/** Translations without these counterparts. */
const rephrased = ['errors.list', 'errors.stillRunning', 'records.trashPeriod'];

test('words that would reverse the meaning have their counterparts in German', () => {
  const formOf = (text: Catalogue[string] | undefined) =>
    JSON.stringify(text)
      .toLowerCase()
      .replace(/\{\w+\}/g, '');
  const withoutCounterpart = [...catalogues].flatMap(([module, texts]) =>
    Object.keys(texts.en)
      .filter((key) => {
        const [en, de] = [formOf(texts.en[key]), formOf(texts.de[key])];
        return counterparts.some(([word, counterpart]) => word.test(en) && !counterpart.test(de));
      })
      .map((key) => `${module}.${key}`),
  );
  assert.deepEqual(withoutCounterpart.toSorted(), rephrased);
});

describe('templates', () => {
  test('the words outside catalogues are found', () => {
    assert.deepEqual(
      wordsOutside(readTemplate('<p title="Name {{x}}">{{#if y}}Go{{else}}{{z}}{{/if}}</p>').html),
      ['Go', `Name ${valueMark}`],
    );
    assert.deepEqual(wordsOutside(readTemplate('<p class="a" title="{{x}}">{{y}}: –</p>').html), []);
  });

  for (const path of templates) {
    test(path, () => {
      const { html, calls } = readTemplate(readFileSync(join(project, path), 'utf8'));
      assert.deepEqual(wordsOutside(html), []);
      for (const { name, parameters } of calls) {
        const text = textNamed(name) ?? assert.fail(`the text ${name} does not exist`);
        assert.deepEqual(parameters, parametersOf(text), name);
      }
      for (const [tag] of html.matchAll(/<[^>]*>/g))
        assert.ok(!tag.includes(markupMark), `${tag} has a text with tags in an attribute`);
    });
  }
});

/** Properties of pages, lists, forms and messages whose values users see. */
const wordProperties =
  'title|label|name|text|intro|empty|help|consequence|submit|problem|error|copy|hint|below|plural|purpose|countLabel|sumLabel|accessibleName';
const literal = `('[^'\\n]*'|"[^"\\n]*"|\`[^\`]*\`)`;
const literalPatterns = [
  new RegExp(`\\b(?:${wordProperties}):\\s*(?:[^,;{}()\\n]*?\\?\\s*)?${literal}`, 'g'),
  // Messages after an action, by code.
  new RegExp(`\\bdone: \\{[^}]*?:\\s*${literal}`, 'g'),
  new RegExp(`new UserError\\(\\s*${literal}`, 'g'),
];

/** Returns the words in a page's module that users can see and that are not from a catalogue. */
const literalsIn = (source: string): readonly string[] =>
  literalPatterns.flatMap((pattern) =>
    [...source.matchAll(pattern)]
      .map(([, words = '']) => words.slice(1, -1).replace(/\$\{[^}]*\}/g, ''))
      // Names of inputs and pages in URLs are in lower case. "ID" is the same in all languages.
      .filter((words) => /\p{Lu}\p{L}/u.test(words) && words.trim() !== 'ID'),
  );

/** Modules of pages. */
const pageModules = globSync('{plugins,webhooks}/**/*.ts', { cwd: project })
  .filter((path) => /(?:^|[/-])(?:pages?|home|home-parts|listing|sentences|frame|row-list)\.ts$/.test(path))
  .concat([
    'plugins/access/oauth/apps.ts',
    'plugins/admin-ui/records/inputs.ts',
    'plugins/admin-ui/records/timeline.ts',
  ])
  .filter((path) => !path.includes('node_modules'))
  .toSorted();

describe('modules of pages', () => {
  test('the words outside catalogues are found', () => {
    const examples = [
      "{ title: 'Add a key' }",
      "{ label: isNew ? 'Add' : t('change') }",
      '{ text: `Key ${name}` }',
      "{ done: { 'key-added': 'Key added.' } }",
      "throw new UserError('Choose a profile.')",
    ];
    assert.deepEqual(examples.flatMap(literalsIn), [
      ...['Add a key', 'Add', 'Key ', 'Key added.', 'Choose a profile.'],
    ]);
    assert.deepEqual(literalsIn("{ title: t('add'), name: 'profile', label: `ID ${id}` }"), []);
  });

  for (const path of pageModules)
    test(path, () => assert.deepEqual(literalsIn(readFileSync(join(project, path), 'utf8')), []));
});

describe('texts', () => {
  const en = {
    greeting: '<strong>Hello</strong> {name}',
    rows: { one: '{count} row', other: '{count} rows' },
  } as const satisfies Catalogue;
  const de = {
    greeting: '<strong>Hallo</strong> {name}',
    rows: { one: '{count} Zeile', other: '{count} Zeilen' },
  } as const satisfies TranslationOf<typeof en>;
  const texts = defineTexts('example', en, { de });
  catalogues.delete('example');

  test('parameters and numbers have the form of the language', () => {
    assert.equal(texts('en')('rows', { count: 1 }), '1 row');
    assert.equal(texts('en')('rows', { count: 1200 }), '1,200 rows');
    assert.equal(texts('de')('rows', { count: 1 }), '1 Zeile');
    assert.equal(texts.later('rows', { count: 1200 })('de'), '1.200 Zeilen');
    assert.equal(texts('de')('greeting', { name: 'Ada' }), '<strong>Hallo</strong> Ada');
  });

  test('parameters are escaped in HTML', () => {
    const html = htmlText('en', 'example.greeting', { name: '<b>"A" & \'B\'</b>' });
    assert.equal(html, '<strong>Hello</strong> &lt;b&gt;&quot;A&quot; &amp; &#x27;B&#x27;&lt;/b&gt;');
  });

  test('wrong keys and parameters are type errors', () => {
    const { greeting, rows } = de;
    const rejected = () => {
      // @ts-expect-error the key does not exist
      texts('en')('farewell');
      // @ts-expect-error the parameter is missing
      texts('en')('greeting');
      // @ts-expect-error the parameter has another name
      texts('en')('greeting', { person: 'Ada' });
      // @ts-expect-error a text is missing
      defineTexts('example', en, { de: { greeting } });
      // @ts-expect-error a translation has another parameter
      defineTexts('example', en, { de: { greeting: 'Hallo {person}', rows } });
    };
    assert.equal(typeof rejected, 'function');
  });

  test('words outside the catalogue are type errors in objects, forms and confirmations', () => {
    const rejected = () => {
      // @ts-expect-error a string is not a text
      const title: Parameters<typeof defineObject>[0]['title'] = 'Keys';
      // @ts-expect-error a string is not a text
      const submit: FormPage<Text>['submit'] = 'Add key';
      // @ts-expect-error a string is not a text
      const label: FormPage<Text>['inputs'][number]['label'] = 'Name';
      const name: FormPage<Text>['inputs'][number]['label'] = ownWords('Ada');
      return [title, submit, label, name];
    };
    assert.equal(typeof rejected, 'function');
  });
});
