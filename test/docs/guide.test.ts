// Runs every request in the guide with sh and curl, in the order of the page, and compares the response with
// the printed one.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { projectFolder } from '../../engine/config/index.ts';
import { onBothDrivers, temporaryFolder } from '../support/instance.ts';
import { sourcesOfGuide } from '../support/sources.ts';

/** A block of commands and the output that the page shows. */
interface Step {
  readonly section: string;
  readonly commands: string;
  readonly shown: string | undefined;
}

const [guide = ''] = readFileSync(join(projectFolder, 'docs/api.md'), 'utf8').split('## Generated clients');
const steps: readonly Step[] = guide
  .split(/^## /m)
  .flatMap((section) =>
    [...section.matchAll(/^```sh\n([\s\S]*?)^```\n(?:\n```(?:json|http|csv|text)\n([\s\S]*?)^```)?/gm)].map(
      ([, commands = '', shown]) => ({ section: section.split('\n', 1)[0] ?? '', commands, shown }),
    ),
  );

/** Marks the end of a step's output. Follows the exit status of its last command. */
const end = '\x1e';

/** Converts printed output to a pattern that ignores white space and in which … matches anything. */
const pattern = (shown: string) => {
  const literal = withoutSpaces(shown).replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${literal.replaceAll('…', '.*?')}$`, 's');
};
const withoutSpaces = (text: string) => text.replace(/\s/g, '');

const sources = await sourcesOfGuide();

onBothDrivers(
  'the guide',
  (instance) => {
    const folder = temporaryFolder();
    let outputs: readonly string[] = [];
    before(async () => {
      const { key } = await instance().organization('acme');
      const script = steps
        .map(({ commands }) => `${commands}\nprintf '\\036%s\\036' $?\n`)
        .join('')
        .replaceAll('http://127.0.0.1:3000', instance().url)
        .replaceAll('crm_…', key);
      writeFileSync(join(folder.path, '.curlrc'), 'silent\nshow-error\n');
      const { stdout } = await promisify(execFile)('sh', ['-c', script], {
        cwd: folder.path,
        env: { PATH: process.env.PATH, HOME: folder.path },
      });
      outputs = stdout.split(end);
    });
    after(() => folder.remove());

    for (const [index, { section, commands, shown }] of steps.entries()) {
      test(`${section}: ${commands.trim().split('\n').at(-1)}`, () => {
        const [output = '', status] = outputs.slice(2 * index);
        assert.equal(status, '0', output);
        assert.match(withoutSpaces(output), pattern(shown ?? ''), output);
      });
    }
  },
  { sources, ownServer: true },
);

test('the guide has a response for every request and a request for every task', () => {
  for (const { commands, shown } of steps)
    assert.equal(shown !== undefined, commands.includes('curl'), commands);
  assert.ok(new Set(steps.map(({ section }) => section)).size > 12);
});
