// The TypeScript code does not name any resource or field, because the API is defined in the YAML files
// alone.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { readConfig } from '../../app/config.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { readSources } from '../../engine/definition/sources.ts';

const root = join(import.meta.dirname, '../..');
// Text catalogues are sentences for users, in which these words have other meanings.
const files = ['engine', 'plugins'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !/[\\/]texts[\\/]/.test(name))
    .map((name) => `${folder}/${name}`),
);

const resources = checkSources(await readSources(readConfig({}).resources));
const resourceNames = new Set(resources.flatMap(({ name, singular }) => [name, singular]));
const fieldNames = new Set(resources.flatMap(({ fields }) => fields.map((field) => field.name)));

/** Words with another meaning in English or JavaScript, and columns that the engine itself defines. */
const allowed: Readonly<Record<string, string>> = {
  id: 'the key of every table, required by definition/check-sources.ts for every resource',
  organization_id: 'the tenant column of every table, also required for every resource',
  created_at: "a column of the platform's own tables",
  created_by_id: "a column of the platform's keys",
  name: "a property of definitions, and a column of the platform's own tables",
  description: 'a key of YAML files and of OpenAPI',
  title: 'a key of OpenAPI and of JSON Schema',
  status: 'part of an HTTP response',
  source: 'the source text of YAML or of a number in JSON.parse',
  state: 'an English word',
  address: "a network address or a user's email address",
  email: "a column of the platform's users",
  subject: 'part of an email',
  phone: 'a type in other tools, in advice about errors',
  timezone: 'a format of strings',
  country: 'a format of strings',
  amount: 'the number in a value of the type money',
};

/**
 * Matches the word "case" in JavaScript, in SQL before "when" or its operand, and for upper and lower case.
 * Any other use names the resource.
 */
const otherCase =
  /\bcase (?=')|\bcase (?=when\b|old\.|new\.|l\.|_f\.|coalesce\(|json_typeof\(|\$\{)|(?:upper|lower)-?case|case-(?:in)?sensitive|snakeCase|\bin case or\b|\bcase (?=lost\b)/gi;

/** Removes comments. Strings are matched first, so that "//" in a string does not start a comment. */
const withoutComments = (text: string): string =>
  text.replace(
    /("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)|\/\*[\s\S]*?\*\/|\/\/[^\n]*/g,
    (whole, quoted?: string) => quoted ?? whole.replace(/[^\n]/g, ' '),
  );

/**
 * Yields identifiers and words in strings, and their parts: accountId also yields account, and lead_score
 * also yields lead.
 */
function* words(text: string): Generator<{ word: string; whole: boolean; line: number }> {
  for (const [index, line] of withoutComments(text).replace(otherCase, '').split('\n').entries()) {
    for (const [identifier] of line.matchAll(/[A-Za-z][A-Za-z0-9_]*/g)) {
      yield { word: identifier, whole: true, line: index + 1 };
      for (const part of identifier.split(/_|(?=[A-Z])/)) {
        yield { word: part.toLowerCase(), whole: false, line: index + 1 };
      }
    }
  }
}

describe('no file under engine/ or plugins/ names a shipped resource or one of its fields', () => {
  test('the check finds names in identifiers and strings', () => {
    const actual = [...words("const a = leadScore; // account\nuse('my_contact', x.lead_score) /* case */")];
    assert.deepEqual(
      actual.filter(({ word }) => resourceNames.has(word)).map(({ word, line }) => `${word}:${line}`),
      ['lead:1', 'contact:2', 'lead:2'],
    );
    assert.ok(actual.some(({ word, whole }) => whole && word === 'lead_score'));
    assert.ok(files.length > 40, 'every file is checked');
  });

  for (const file of files) {
    test(file, () => {
      const problems = [...words(readFileSync(join(root, file), 'utf8'))]
        .filter(({ word, whole }) =>
          resourceNames.has(word) ? true : whole && fieldNames.has(word) && !Object.hasOwn(allowed, word),
        )
        .map(({ word, line }) => `${file}:${line} names "${word}"`);
      assert.deepEqual([...new Set(problems)], []);
    });
  }

  test('every word in the allow-list is needed', () => {
    const used = new Set(
      files.flatMap((file) => [...words(readFileSync(join(root, file), 'utf8'))].map(({ word }) => word)),
    );
    for (const word of Object.keys(allowed)) {
      assert.ok(used.has(word) && fieldNames.has(word) && !resourceNames.has(word), word);
    }
  });
});
