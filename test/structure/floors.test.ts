// The module structure in docs/architecture.md: which rooms can import which other rooms.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { circles, type Imports, readImports } from '../support/imports.ts';

const root = join(import.meta.dirname, '../..');
const floors = ['engine', 'plugins', 'webhooks', 'app'] as const;

/** The rooms in the table, lowest first. */
const rooms = [
  ...readFileSync(join(root, 'docs/architecture.md'), 'utf8').matchAll(
    /^\| `((?:engine|plugins|webhooks|app)\/[\w./-]*)` /gm,
  ),
].map(([, room = '']) => room);

/**
 * Returns a file's room: the folder or file in the table that contains it, or its own folder if it is not in
 * the table.
 */
function roomOf(file: string): string {
  return (
    rooms.find((room) => file === room || (room.endsWith('/') && file.startsWith(room))) ?? dirname(file)
  );
}

/** Returns a description of every violation of the rules. */
function violations(imports: Imports): readonly string[] {
  const found: string[] = [];
  for (const [file, targets] of imports) {
    const room = roomOf(file);
    if (!rooms.includes(room)) found.push(`${file}: no such room in docs/architecture.md`);
    for (const target of targets) {
      const other = roomOf(target);
      if (other === room) continue;
      if (rooms.indexOf(other) >= rooms.indexOf(room))
        found.push(`${file} imports ${target}, of a room below`);
      if (other.endsWith('/') && target !== `${other}index.ts`) {
        found.push(`${file} reaches past ${other}index.ts to ${target}`);
      }
    }
  }
  return [...found, ...circles(imports).map((circle) => `a circle: ${circle.join(' → ')}`)];
}

describe('the module structure', () => {
  const imports = readImports(...floors);

  test('every room in the table has modules', () => {
    assert.ok(imports.size > 200, `only ${imports.size} modules were found`);
    assert.ok([...imports.values()].flat().length > 500, 'imports were not found');
    const seen = new Set([...imports.keys()].map(roomOf));
    assert.deepEqual(
      rooms.filter((room) => !seen.has(room)),
      [],
    );
  });

  test('imports follow the table, use an index and contain no circle', () => {
    assert.deepEqual(violations(imports), []);
  });

  test('rooms are in the order of their floors', () => {
    const order = rooms.map((room) => floors.findIndex((floor) => room.startsWith(floor)));
    assert.deepEqual(order, order.toSorted());
  });

  test('different work takes different advisory locks', () => {
    const keys = [...imports.keys()].flatMap((file) => [
      ...(readFileSync(join(root, file), 'utf8').match(/(?<==\s*)[\d_]{10,}n(?=;)/g) ?? []),
    ]);
    assert.ok(keys.length >= 5, keys.join());
    assert.equal(new Set(keys).size, keys.length, keys.join());
  });

  for (const [name, file, target, expected] of [
    ['an arrow up', 'engine/sql/statement.ts', 'plugins/access/identity/index.ts', /of a room below/],
    ['a reach past an index', 'plugins/access/users/commands.ts', 'engine/tables/names.ts', /reaches past/],
    ['a circle', 'engine/fields/field.ts', 'engine/fields/index.ts', /a circle/],
    ['a room that the table lacks', 'plugins/unknown/x.ts', 'engine/errors.ts', /no such room/],
  ] as const) {
    test(`detects ${name}`, () => {
      const broken = new Map([...imports, [file, [...(imports.get(file) ?? []), target]]]);
      assert.ok(violations(broken).some((text) => expected.test(text)));
    });
  }
});
