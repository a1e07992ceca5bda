// Runs the requests in docs/agents.md, and checks what the page says about tools.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { projectFolder } from '../../engine/config/index.ts';
import { tools } from '../../plugins/api/mcp/tools.ts';
import { configured } from '../support/agents.ts';
import { pattern, runSteps, stepsOf, withoutSpaces } from '../support/guide.ts';
import { onBothDrivers } from '../support/instance.ts';

const page = readFileSync(join(projectFolder, 'docs/agents.md'), 'utf8');
const steps = stepsOf(page.slice(page.indexOf('## Try it with curl')));

onBothDrivers(
  'the page about agents',
  (instance) => {
    let outputs: Awaited<ReturnType<typeof runSteps>> = [];
    before(async () => {
      const acme = await instance().organization('acme');
      // Records of a key without a user do not have an owner.
      outputs = await runSteps(steps, instance().url, (await acme.makeKey()).key);
    });

    for (const [index, { commands, shown = '' }] of steps.entries()) {
      test(commands.trim().split('\n').at(-1) ?? '', () => {
        const { output = '', status } = outputs[index] ?? {};
        assert.equal(status, '0', output);
        assert.match(withoutSpaces(output), pattern(shown), output);
      });
    }
  },
  { environment: configured('guide', 'mcp: true\n') },
);

test('the page lists all tools with their parameters', () => {
  const rows = [...page.matchAll(/^\| `(\w+)` \| (.*?) \| .* \|$/gm)];
  assert.deepEqual(
    rows.map(([, name, parameters = '']) => [
      name,
      [...parameters.matchAll(/`(\w+)`/g)].map(([, one]) => one),
    ]),
    tools.map(({ name, parameters }) => [name, Object.keys(parameters)]),
  );
});
