// An exported file that is imported into an empty organization and re-exported has the same bytes, except for
// values that the server sets.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import fc from 'fast-check';
import type { Resource } from '../../engine/compile/compile.ts';
import { commandLine } from '../../engine/effects/actor.ts';
import { formatNames, formatOf } from '../../engine/records/formats.ts';
import { transaction } from '../../engine/tables/handle.ts';
import { addMembership } from '../../plugins/access/identity/index.ts';
import { profileId } from '../../plugins/access/profiles/profiles.ts';
import { bodyText } from '../support/arbitraries.ts';
import { everyType } from '../support/every-type.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';

const numRuns = Number(process.env.PROPERTY_RUNS ?? 25);

onBothDrivers(
  'export and import',
  (instance, driver) => {
    let runs = 0;
    let source: Organization;
    before(async () => {
      source = await instance().organization(`source-${driver}`);
    });
    const resourceOf = (name: string) => instance().resources.find((each) => each.name === name) as Resource;

    for (const name of ['loose', 'tight']) {
      for (const format of formatNames) {
        test(`${name} as ${format}: keeps any values of every type`, async () => {
          const { type } = formatOf(format);
          const target = await instance().organization(`target-${driver}-${++runs}`);
          // Generated integers can be the ID of the source's user.
          await transaction(instance().database, async (tables) =>
            addMembership(tables, commandLine(instance().config), {
              user: { id: source.user, email: 'admin@source.example' },
              organization: target.id,
              profile: await profileId(tables, target.id, 'administrator'),
            }),
          );
          const path = `/api/v1/${name}`;
          /** Returns an organization's export without the columns that the server sets. */
          const exportOf = async ({ key }: Organization) => {
            const { status, text } = await instance().call(`GET ${path}?sort=id`, {
              key,
              headers: { accept: type },
            });
            assert.equal(status, 200, text);
            return {
              text,
              own: text.replaceAll(format === 'csv' ? /^\d+,\d+,/gm : /"id":\d+,"organization_id":\d+,/g, ''),
            };
          };
          // Bodies rejected by POST are rejected per line by the import.
          const body = bodyText(resourceOf(name), { loose: [] });
          await fc.assert(
            fc.asyncProperty(fc.array(body, { minLength: 1, maxLength: 8 }), async (bodies) => {
              for (const each of bodies)
                await instance().call(`POST ${path}`, { key: source.key, body: each });
              const { text, own } = await exportOf(source);
              const answer = await instance().call(`POST ${path}/import`, {
                key: target.key,
                body: text,
                headers: { 'content-type': type },
              });
              assert.equal(answer.json.failed, 0, answer.text);
              assert.equal((await exportOf(target)).own, own);
              await clear(name, source, target);
            }),
            { numRuns },
          );
        });
      }
    }

    async function clear(name: string, ...organizations: readonly Organization[]) {
      const text = `delete from ${name} where organization_id = any($1::bigint[])`;
      await instance().database.run({ name: '', text, values: [organizations.map(({ id }) => id)] });
    }
  },
  { sources: everyType },
);
