// The change feed while processes are killed. It contains every change exactly once, and no change that did
// not happen.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Copy } from '../support/copy.ts';
import { diceOf } from '../support/dice.ts';
import { type Answer, drivers } from '../support/instance.ts';
import { type Service, type Storage, serve, storageOfItsOwn, until } from '../support/process.ts';

const [writers, kills] = [8, 3];

for (const driver of drivers) {
  describe(`the change feed while processes are killed (${driver})`, () => {
    let storage: Storage;
    let key: string;
    const nodes: Service[] = [];
    before(async () => {
      storage = await storageOfItsOwn(driver);
      const environment = {
        ...storage.environment,
        AUTH_SECRETS: 'a secret that all nodes of the test share',
      };
      storage = { ...storage, environment };
      nodes.push(await serve(environment));
      key = String(nodes[0]?.printed.key);
      if (driver === 'postgresql') nodes.push(await serve(environment));
    });
    after(async () => {
      for (const node of nodes) await node.kill();
      await storage.remove();
    });

    test('keeps a copy identical to the database', async () => {
      const dice = diceOf(7);
      const choose = <T>(all: readonly T[]): T => all[Math.floor(dice() * all.length)] as T;
      const call = (request: string, body?: unknown): Promise<Answer | undefined> =>
        choose(nodes)
          .call(request, { key, ...(body !== undefined && { body }) })
          // The process was killed, and it is unknown whether it stored the write.
          .catch(() => pause(20).then(() => undefined));
      const get = async (path: string): Promise<Answer> => (await call(`GET ${path}`)) ?? get(path);
      const copy = new Copy(get);
      const leads = '/api/v1/leads';
      const ids: unknown[] = [];
      let [isWritten, written] = [false, 0];
      const write = async () => {
        while (!isWritten) {
          const body = { last_name: `n${written}` };
          const id = dice() < 0.5 ? undefined : choose(ids);
          const answer = await (id === undefined
            ? call(`POST ${leads}`, body)
            : call(`${choose(['PUT', 'PATCH', 'DELETE'])} ${leads}/${id}`, body));
          if (answer === undefined) continue;
          written++;
          if (answer.status === 201) ids.push(answer.json.id);
        }
      };
      let last: unknown;
      // The feed can stop for a while before the last change, for example during an analysis of a table.
      const following = copy.follow(() => last !== undefined && String(last) in copy.recordsOf('leads'));
      const writing = Promise.all(Array.from({ length: writers }, write));
      for (let count = 0; count < kills; count++) {
        const before = written;
        while (written < before + 100) await pause(10);
        const index = count % nodes.length;
        await nodes[index]?.kill();
        nodes[index] = await serve(storage.environment);
      }
      isWritten = true;
      await writing;
      await until(async () => {
        const answer = await call(`POST ${leads}`, { last_name: 'the last change' });
        if (answer?.status === 201) last = answer.json.id;
        return last !== undefined;
      }, 'the last change');
      await following;
      for (const resource of ['leads', 'accounts', 'contacts']) {
        const stored = await copy.stored(resource);
        assert.ok(Object.keys(stored).length > 0);
        assert.deepEqual(copy.recordsOf(resource), stored, resource);
      }
    });
  });
}
