// Jobs while processes are killed and stopped: another process performs them again.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { drivers } from '../support/instance.ts';
import { onStored } from '../support/partners.ts';
import { project, type Service, serve, storageOfItsOwn, until } from '../support/process.ts';
import { patient } from '../support/promised.ts';

/** Waits in the first attempts until the process ends; then creates a lead. */
const moduleText = `
import { defineModule } from '${project}/app/index.ts';
export default defineModule({
  name: 'chores',
  actions: {
    leads: {
      sweep: {
        description: 'Sweeps.',
        job: true,
        ofCollection: true,
        input: { type: 'object', properties: { waits: { type: 'integer' } } },
        run: async ({ attempt, input, records, progress, signal }) => {
          const found = await records.find('leads', { q: 'attempt' });
          await records.create('leads', { last_name: 'attempt ' + attempt + ' after ' + found.length });
          progress(1, 2);
          if (found.length < Number(input.waits)) await new Promise((resolve) => signal.addEventListener('abort', resolve));
          return { attempt, started: found.length + 1 };
        },
      },
    },
  },
});
`;

for (const driver of drivers) {
  describe(`jobs while processes end (${driver})`, () => {
    let storage: Awaited<ReturnType<typeof storageOfItsOwn>>;
    let key: string;
    let node: Service;
    before(async () => {
      storage = await storageOfItsOwn(driver);
      const folder = join(storage.folder, '..', 'instance');
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
      writeFileSync(join(folder, 'chores.ts'), moduleText);
      writeFileSync(join(folder, 'config.yaml'), 'modules: [./chores.ts]\n');
      const environment = {
        ...patient,
        ...storage.environment,
        CRM_CONFIG: join(folder, 'config.yaml'),
        AUTH_SECRETS: 'a secret that all nodes of the test share',
      };
      storage = { ...storage, environment };
      node = await serve(environment);
      key = String(node.printed.key);
    });
    after(async () => {
      await node.kill();
      await storage.remove();
    });
    const startJob = async (waits: number): Promise<string> => {
      const { status, text, headers } = await node.call('POST /api/v1/leads/actions/sweep', {
        key,
        body: { waits },
      });
      assert.equal(status, 202, text);
      return headers.get('location') ?? '';
    };
    const job = async (path: string) => (await node.call(`GET ${path}`, { key })).json;
    /** Waits until attempts have created as many leads. The job could still have the progress of the previous process. */
    const attemptsBegin = (count: number) =>
      until(async () => {
        const { status, json } = await node.call('GET /api/v1/leads?q=attempt', { key });
        return status === 200 && (json.data as unknown[]).length === count;
      }, `${count} attempts to begin`);
    const isCompleted = (path: string) =>
      until(async () => (await job(path)).state === 'completed', 'the job to complete');

    test('a job of a process that was killed and of one that was stopped is performed again', async () => {
      const path = await startJob(2);
      await attemptsBegin(1);
      await node.kill();
      // The killed process's lease lasts for 30 s.
      await onStored(storage.environment, async ({ database }) => {
        const lease = (text: string) => database.run({ name: '', text, values: [] });
        const [[leased] = []] = await lease(
          `select (due_at > now())::text from crm_jobs where state = 'running'`,
        );
        assert.equal(String(leased), 'true');
        await lease(`update crm_jobs set due_at = now() where state = 'running'`);
      });
      node = await serve(storage.environment);
      await attemptsBegin(2);
      node.signal('SIGTERM');
      const { code, stderr } = await node.ended;
      assert.equal(code, 0, stderr);
      node = await serve(storage.environment);
      await isCompleted(path);
      // The attempt of the process that was stopped does not count.
      assert.deepEqual((await job(path)).result, { attempt: 2, started: 3 });
    });

    if (driver === 'postgresql')
      test('another node performs the job of a killed one', async () => {
        const path = await startJob(4);
        await attemptsBegin(4);
        const killed = node;
        node = await serve(storage.environment);
        await killed.kill();
        await onStored(storage.environment, ({ database }) =>
          database.run({
            name: '',
            text: `update crm_jobs set due_at = now() where state = 'running'`,
            values: [],
          }),
        );
        await isCompleted(path);
        assert.deepEqual((await job(path)).result, { attempt: 2, started: 5 });
      });
  });
}
