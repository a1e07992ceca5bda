// Runs every request in the guide with sh and curl, in the order of the page, and compares the response with
// the printed one.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { projectFolder } from '../../engine/config/index.ts';
import { pattern, runSteps, stepsOf, withoutSpaces } from '../support/guide.ts';
import { onBothDrivers } from '../support/instance.ts';
import { sourcesOfGuide } from '../support/sources.ts';

const [guide = ''] = readFileSync(join(projectFolder, 'docs/api.md'), 'utf8').split('## Generated clients');
const steps = stepsOf(guide);

const sources = await sourcesOfGuide();

onBothDrivers(
  'the guide',
  (instance) => {
    let outputs: Awaited<ReturnType<typeof runSteps>> = [];
    before(async () => {
      const { key } = await instance().organization('acme');
      outputs = await runSteps(steps, instance().url, key);
    });

    for (const [index, { section, commands, shown }] of steps.entries()) {
      test(`${section}: ${commands.trim().split('\n').at(-1)}`, () => {
        const { output = '', status } = outputs[index] ?? {};
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
