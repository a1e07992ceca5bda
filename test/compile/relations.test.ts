// Relations between resources: their names, and the relations that callers can see.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileResource } from '../../engine/compile/compile.ts';
import { sortByReferences } from '../../engine/compile/reference-order.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import type { Relation } from '../../engine/query/expansion.ts';
import { compileGrants } from '../../engine/records/index.ts';
import { identifier } from '../../engine/sql/index.ts';
import { sourcesWith } from '../support/sources.ts';

const identity = `
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }`;
const resource = (name: string, fields: string) => ({
  file: `${name}.yaml`,
  text: `fields:${identity}\n${fields}`,
});
const long = 'x'.repeat(40);

const definitions = checkSources(
  await sourcesWith(
    resource('firms', '  people: { type: string }'),
    resource('people', '  firm_id: { type: reference, to: firms, nullable: true }'),
    resource(
      'pairs',
      `  left_id: { type: reference, to: firms, nullable: true }
  right_id: { type: reference, to: firms, nullable: true }`,
    ),
    resource(
      long,
      `  ${'a'.repeat(40)}: { type: reference, to: firms, nullable: true }
  ${'b'.repeat(40)}: { type: reference, to: firms, nullable: true }`,
    ),
    resource('members_of', '  person_id: { type: reference, to: people, nullable: true }'),
  ),
);
/** Returns the names of relations to resources, without users. */
const namesOf = (relations: readonly Relation[] = []) =>
  relations.flatMap(({ name, to }) => (to === undefined ? [] : [name]));
const definitionOf = (name: string) =>
  definitions.find((definition) => definition.name === name) ?? assert.fail(name);

test('relations have distinct names that are not names of fields and fit into an identifier', () => {
  assert.deepEqual(namesOf(definitionOf('accounts').expansion), ['cases', 'contacts', 'opportunities']);
  assert.deepEqual(namesOf(definitionOf('contacts').expansion), ['account_id', 'cases']);
  const [left, right, person, ...shortened] = namesOf(definitionOf('firms').expansion);
  assert.deepEqual([left, right, person], ['pairs.left_id', 'pairs.right_id', 'people.firm_id']);
  assert.equal(new Set(shortened).size, 2);
  for (const name of shortened) assert.equal(name.length, 63);
});

test('names longer than 63 characters, including their suffix, are shortened', () => {
  const name = (length: number, end = 'x') => `${'x'.repeat(length - 1)}${end}`;
  assert.deepEqual([identifier(name(63)), identifier(name(58), '_fkey')], [name(63), name(58)]);
  const shortened = [identifier(name(64)), identifier(name(64, 'y')), identifier(name(59), '_fkey')];
  assert.deepEqual(
    shortened.map(({ length }) => length),
    [63, 63, 58],
  );
  assert.equal(new Set(shortened).size, 3);
  for (const short of shortened) assert.match(short, /^x+_[0-9a-f]{8}$/);
});

test('each relation has the relations of its target, but no third level', () => {
  const [cases, contacts] = definitionOf('accounts').expansion.filter(({ isList }) => isList);
  assert.deepEqual(namesOf(cases?.expansion), ['account_id', 'contact_id']);
  assert.deepEqual(namesOf(contacts?.expansion), ['account_id', 'cases']);
  for (const nested of contacts?.expansion ?? []) assert.deepEqual(nested.expansion, []);
});

test('a resource follows the targets of its required references and, if possible, of its other references', () => {
  const orderOf = (...resources: readonly { readonly file: string; readonly text: string }[]) =>
    sortByReferences(checkSources(resources).map((definition) => ({ definition }))).map(
      ({ definition }) => definition.name,
    );
  const link = (to: string, options = 'nullable: true') =>
    `  link: { type: reference, to: ${to}, ${options} }`;
  const required = 'required: true, on_delete: cascade';
  assert.deepEqual(orderOf(resource('a', link('b')), resource('b', '')), ['b', 'a']);
  assert.deepEqual(orderOf(resource('a', link('b')), resource('b', link('a', required))), ['a', 'b']);
  assert.deepEqual(orderOf(resource('a', link('b', required)), resource('b', link('a'))), ['b', 'a']);
  assert.deepEqual(
    orderOf(resource('a', link('[b, c]')), resource('b', link('c')), resource('c', link('c'))),
    ['c', 'b', 'a'],
  );
});

test('callers see only relations whose reference they can read', () => {
  const grouped = definitions.map((definition) => ({
    ...definition,
    fields: definition.fields.map((field) =>
      (definition.name === 'people' && field.name === 'firm_id') || field.name === 'left_id'
        ? { ...field, group: 'hidden' }
        : field,
    ),
  }));
  const resources = compileResource(grouped, '/api', []);
  const relationsFor = (name: string, objects: readonly string[]) => {
    const grants = compileGrants(objects.map((object) => ({ object, action: 'read' })));
    const { definition } = resources.find((each) => each.name === name)?.viewFor(grants) ?? assert.fail(name);
    return definition.expansion.map(({ name, expansion }) => [name, namesOf(expansion)] as const);
  };
  const withoutLong = (relations: ReturnType<typeof relationsFor>) =>
    relations.filter(([name]) => !name.startsWith(long));
  assert.deepEqual(withoutLong(relationsFor('firms', [])), [['pairs.right_id', ['right_id']]]);
  assert.deepEqual(withoutLong(relationsFor('firms', ['people.hidden'])), [
    ['pairs.right_id', ['right_id']],
    ['people.firm_id', ['firm_id', 'members_of']],
  ]);
  assert.deepEqual(relationsFor('members_of', []), [['person_id', ['members_of']]]);
  assert.deepEqual(relationsFor('members_of', ['people.hidden']), [['person_id', ['firm_id', 'members_of']]]);
});
