// The paths that docs/changes.md, docs/architecture.md and other pages refer to exist, and docs/changes.md
// lists every file to change when adding an object of each kind.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import {
  cpSync,
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';

const root = join(import.meta.dirname, '../..');
/** Returns the source files and folders in a page's inline code. */
const paths = (page: string): string[] => [
  ...new Set(
    [
      ...readFileSync(join(root, page), 'utf8').matchAll(
        /`((?:app|engine|plugins|webhooks|test|resources|migrations|samples|bench|bin)\/[\w./-]*)`/g,
      ),
    ].map(([, path = '']) => path),
  ),
];

for (const page of ['docs/changes.md', 'docs/architecture.md', 'docs/reliability.md', 'CONTRIBUTING.md']) {
  describe(page, () => {
    const found = paths(page);
    test('names files', () => assert.ok(found.length >= 5, page));
    for (const path of found) test(path, () => assert.ok(existsSync(join(root, path))));
  });
}

const rows = [...readFileSync(join(root, 'docs/changes.md'), 'utf8').matchAll(/^\| (.*?) +\| (`.*?`) +\|/gm)];

test('docs/changes.md lists at least twelve changes', () => assert.ok(rows.length >= 12));

/** An edit that inserts text before or after a string in an existing file. */
interface Edit {
  readonly file: string;
  readonly before?: string;
  readonly after?: string;
  readonly insert: string;
}

/** A toy object of one kind, consisting of files in `toys/` and edits. */
interface Toy {
  readonly files: readonly string[];
  readonly edits: readonly Edit[];
}

/** Toys, keyed by the name of the change in docs/changes.md. */
const toys: Readonly<Record<string, Toy>> = {
  'a field type': {
    files: ['engine/fields/measure.ts'],
    edits: [
      {
        file: 'engine/fields/field-types.ts',
        before: 'import { booleanType }',
        insert: "import { measureType } from './measure.ts';\n",
      },
      {
        file: 'engine/fields/field-types.ts',
        before: '  joined: joinedType,',
        insert: '  measure: measureType,\n',
      },
      { file: 'docs/maintainers.md', before: '## ', insert: '`measure`\n\n' },
    ],
  },
  'a filter operator': {
    files: [],
    edits: [
      {
        file: 'engine/query/operators.ts',
        before: '} as const satisfies',
        insert: `  ends_with: {
    needs: 'contains',
    index: 'none',
    label: 'ends with',
    describe: ({ name }) => \`Returns only records whose \${name} ends with this text.\`,
    where: (field, { placeholder }) => {
      const value = \`\${placeholder()}::text\`;
      return \`right(\${column(field)}, length(\${value})) = \${value}\`;
    },
  },
`,
      },
      {
        file: 'plugins/admin-ui/records/list-filters.ts',
        before: "  is_null: later('isEmpty'),",
        insert: "  ends_with: later('endsWith'),\n",
      },
      {
        file: 'plugins/admin-ui/records/texts/en.ts',
        before: "  isEmpty: 'is empty',",
        insert: "  endsWith: 'ends with',\n",
      },
      {
        file: 'plugins/admin-ui/records/texts/de.ts',
        before: "  isEmpty: 'ist leer',",
        insert: "  endsWith: 'endet mit',\n",
      },
      { file: 'docs/maintainers.md', before: '## ', insert: '`ends_with`\n\n' },
    ],
  },
  'a page size per resource': {
    files: [],
    edits: [
      {
        file: 'engine/query/page.ts',
        after: '  declare: (',
        insert: '{ yaml }',
      },
      { file: 'engine/query/page.ts', after: '({ yaml }) => ({ size: ', insert: 'sizeOf(yaml) ?? ' },
      {
        file: 'engine/query/page.ts',
        before: '  declare: (',
        insert: `  yaml: {
    description: 'Number of records per page.',
    type: 'object',
    'x-expected': 'a map such as { size: 50 }',
    required: ['size'],
    additionalProperties: false,
    properties: { size: { description: 'From 1 to 200.', type: 'integer', minimum: 1, maximum: 200 } },
  },
`,
      },
      {
        file: 'engine/query/page.ts',
        before: 'const isFar =',
        insert: 'const sizeOf = (yaml: unknown) => (yaml as Partial<PageRule> | undefined)?.size;\n\n',
      },
      { file: 'docs/maintainers.md', before: '## ', insert: '`page`\n\n' },
    ],
  },
  'an operation': {
    files: ['engine/records/peek.ts'],
    edits: [
      {
        file: 'engine/records/operations.ts',
        before: 'import { read }',
        insert: "import { peek } from './peek.ts';\n",
      },
      { file: 'engine/records/operations.ts', before: '} as const;', insert: '  peek,\n' },
    ],
  },
  'work that accompanies every write': {
    files: ['engine/effects/touch.ts'],
    edits: [
      {
        file: 'engine/effects/effects.ts',
        before: 'import type { Effect }',
        insert: "import { touch } from './touch.ts';\n",
      },
      { file: 'engine/effects/effects.ts', after: 'audit: changeLog', insert: ', touch' },
      { file: 'docs/administrators.md', before: '## ', insert: '`TOUCH`\n\n' },
    ],
  },
  'an error': {
    files: [],
    edits: [
      {
        file: 'engine/errors.ts',
        before: '} as const satisfies',
        insert: `  toyBroken: {
    status: 503,
    code: 'toy_broken',
    meaning: 'A toy is broken.',
    hint: 'Repair it.',
    detail: (part: string) => ({ text: \`The \${part} is broken\` }),
  },
`,
      },
      {
        file: 'docs/reference.md',
        before: '| <a id="read_only">',
        insert: '| <a id="toy_broken"></a>`toy_broken` | 503 | A toy is broken. |\n',
      },
    ],
  },
  'a channel provider': {
    files: ['webhooks/channels/pigeon.ts'],
    edits: [
      {
        file: 'webhooks/channels/channels.ts',
        before: 'import { telegram }',
        insert: "import { pigeon } from './pigeon.ts';\n",
      },
      { file: 'webhooks/channels/channels.ts', before: '  telegram,', insert: '  pigeon,\n' },
      { file: 'docs/partners.md', before: '## ', insert: '`pigeon`\n\n' },
    ],
  },
  'a module': {
    files: ['plugins/toys/index.ts'],
    edits: [
      {
        file: 'app/modules.ts',
        before: 'import { webhookModules }',
        insert: "import { toysModule } from '../plugins/toys/index.ts';\n",
      },
      { file: 'app/modules.ts', before: '  demoModule,\n];', insert: '  toysModule,\n' },
      {
        file: 'docs/architecture.md',
        before: '| `webhooks/settings/`',
        insert: '| `plugins/toys/` | Toys |\n',
      },
    ],
  },
  'a metric': {
    files: ['plugins/toys/index.ts'],
    edits: [
      {
        file: 'docs/metrics.md',
        before: '| `crm_build_info`',
        insert: '| `crm_toys` | gauge |  | Number of toys. |\n',
      },
    ],
  },
  'an admin page': { files: ['plugins/toys/page.ts', 'plugins/toys/index.ts'], edits: [] },
  'a command': {
    files: ['plugins/toys/commands.ts', 'plugins/toys/index.ts'],
    edits: [{ file: 'docs/administrators.md', before: '## ', insert: '`toys`\n\n' }],
  },
};

/** Contract tests of the kinds. They do not need a database server, because modules run on PGlite. */
const contractTests = [
  'test/docs/documentation.test.ts',
  'test/docs/toys.ts',
  'test/effects/contract.test.ts',
  'test/fields/abilities.test.ts',
  'test/query/contract.test.ts',
  'test/records/contract.test.ts',
  'test/structure/errors.test.ts',
  'test/structure/floors.test.ts',
  'test/structure/modules.test.ts',
];

describe('a toy member of each kind', () => {
  const copy = mkdtempSync(join(tmpdir(), 'crm-toys-'));
  const run = async (...args: readonly string[]): Promise<string> => {
    const env = { ...process.env, TEST_DRIVERS: 'embedded', NODE_TEST_CONTEXT: undefined };
    const options = { cwd: copy, env, maxBuffer: 2 ** 25 };
    return promisify(execFile)(process.execPath, args, options).then(
      ({ stdout }) => stdout,
      ({ stdout }: { readonly stdout: string }) => assert.fail(stdout.slice(-5000)),
    );
  };

  before(() => {
    const isCopied = (source: string) => !/\/(?:node_modules|\.git|dist|data)$/.test(source);
    cpSync(root, copy, { recursive: true, filter: isCopied });
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    cpSync(join(root, 'test/docs/toys'), copy, { recursive: true });
    for (const { file, before, after, insert } of Object.values(toys).flatMap(({ edits }) => edits)) {
      const path = join(copy, file);
      const text = readFileSync(path, 'utf8');
      const anchor = before ?? after ?? '';
      const index = text.indexOf(anchor);
      assert.notEqual(index, -1, `${file} does not contain ${anchor}`);
      const position = before === undefined ? index + anchor.length : index;
      writeFileSync(path, text.slice(0, position) + insert + text.slice(position));
    }
  });
  after(() => rmSync(copy, { recursive: true }));

  for (const [change, { files, edits }] of Object.entries(toys)) {
    test(`${change}: touches only the files that docs/changes.md lists, the primary file first`, () => {
      const [, , list = ''] = rows.find(([, name]) => name === change) ?? [];
      const listed = [...list.matchAll(/`(.*?)`/g)].map(([, path = '']) => path);
      const touched = [...new Set([...files, ...edits.map(({ file }) => file)])];
      const patterns = listed.map((path) => new RegExp(`^${path.replace('<name>', '[\\w-]+')}$`));
      assert.deepEqual(
        touched.filter((file) => !patterns.some((pattern) => pattern.test(file))),
        [],
      );
      assert.match(touched[0] ?? '', patterns[0] ?? /^$/);
      assert.equal(touched.length, listed.length, `${touched} and ${listed}`);
    });
  }

  test('every file of the toys belongs to a change', () => {
    const used = Object.values(toys).flatMap(({ files }) => files);
    const all = globSync('{engine,plugins,webhooks}/**/*.ts', { cwd: join(root, 'test/docs/toys') });
    assert.deepEqual(all.toSorted(), [...new Set(used)].toSorted());
  });

  test('compiles', async () => {
    const config = {
      extends: './tsconfig.json',
      include: ['app', 'engine', 'plugins', 'webhooks', 'test/docs/toys.ts'],
    };
    writeFileSync(join(copy, 'tsconfig.toys.json'), JSON.stringify(config));
    await run('node_modules/typescript/bin/tsc', '--project', 'tsconfig.toys.json');
  });

  // One process for all files, because most of the time is spent on loading the project.
  test('passes the contract tests', async () => {
    await run('--test', '--test-isolation=none', ...contractTests);
  });
});
