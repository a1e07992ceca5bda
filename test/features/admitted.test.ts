// Every statement started by a request, on every route in the router, goes through admission for the
// request's organization.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Watched, watchAdmission } from '../support/admitted.ts';
import { expectedBody } from '../support/hostile/bodies.ts';
import { type Client, startClient } from '../support/hostile/client.ts';
import { type Target, targetsOf, unreached } from '../support/hostile/targets.ts';
import { openWorld, type World } from '../support/hostile/world.ts';
import { drivers, type Instance } from '../support/instance.ts';

/**
 * Matches statements of background work. If a request's statement matches, the statement has lost its
 * association with the request.
 */
const background = [
  /^(begin|commit|rollback|transaction)\b/i,
  /^(events_look|ledger_lag)$/,
  /set_config\(/,
  /with recursive ring/,
  /with fast as materialized/,
  // Looks for batches of events that are due.
  /^\s*select s\.organization_id, s\.id, s\.batch_events > 0/,
  /crm_ledger_epochs/,
  /with ordinality w\(/,
  /pg_try_advisory_xact_lock|pg_stat|analyze/i,
  /^\s*(insert into|update|delete from) "?crm_(sessions|api_keys|name_uses|request_counts|resource_views|inbox|outbox|event)/i,
  // Deliveries to subscriptions that earlier routes created.
  /^select "object", "action" from "crm_grants"|^leads_read$/,
  /_last_used|for update( of \w+)? skip locked/,
  // Later processing of channel events that earlier routes stored, and retention.
  /meta_leadgen_id|crm_(received_messages|secret_uses|erasures)|hashtextextended/,
];

/** Returns whether a request opens a page, some of which only exist in certain states. */
const isPage = (method: string, url: string): boolean =>
  method === 'GET' && /^\/(?:setup|docs|webhooks|$)/.test(url);

/**
 * Lookups of a session and its memberships, which are cached briefly. Their organization is still unknown.
 */
const authentication = /from "crm_(sessions|memberships)" as "[sm]"/;

for (const driver of drivers) {
  describe(`request statements (${driver})`, () => {
    let instance: Instance;
    let client: Client;
    let watched: Watched;
    let world: World;
    const targets: Target[] = [];
    before(async () => {
      client = startClient();
      world = await openWorld(driver);
      instance = world.instance;
      for (const route of world.routes) targets.push(...(await targetsOf(world, route)));
      await world.screens.settled();
      watched = await watchAdmission(instance);
    });
    after(async () => {
      watched?.stop();
      await client?.close();
      await instance?.close();
    });

    test('each statement holds a slot, and organization statements hold a slot of that organization', async () => {
      const { shop } = world;
      const acme = world.acme.id;
      const statuses = new Map<Target, ReadonlySet<number>>();
      const problems: string[] = [];
      for (const target of targets) {
        const name = `${target.method} ${target.route.url}`;
        for (const list of [watched.outside, watched.background, watched.inside, watched.slots])
          list.length = 0;
        const body = target.method === 'GET' ? undefined : expectedBody(target.expected);
        const headers = {
          'content-type': target.expected.type,
          ...target.headers(body ?? Buffer.alloc(0), target.path),
        };
        const { status } = await client.send({
          url: instance.url + target.path,
          method: target.method,
          headers,
          body,
        });
        statuses.set(target, new Set([status]));
        const lost = watched.background.filter((text) => !background.some((each) => each.test(text)));
        for (const text of [...watched.outside, ...lost]) problems.push(`${name}: ${text.slice(0, 300)}`);
        const { organization: own = acme } = target;
        const isOfOrganization = /^\/(api\/v1|setup\/o\/:org)/.test(target.route.url);
        const others = watched.slots.filter(
          (slot) => !slot.startsWith('lookup ') && !slot.endsWith(` ${own}`),
        );
        if (isOfOrganization && status < 300 && others.length > 0)
          problems.push(`${name}: ${others.join(', ')}`);
        if (
          isOfOrganization &&
          status < 300 &&
          !watched.slots.some((slot) => slot.endsWith(` ${own}`)) &&
          watched.inside.some((text) => !authentication.test(text))
        )
          problems.push(`${name}: no slot of its organization for ${watched.inside.length} statements`);
        // The organization of a partner or channel is known only after the first statements.
        const isOfPartner =
          target.method === 'POST' && /^\/(?:webhooks|api\/booking-forms)\//.test(target.route.url);
        const owner = target.route.url === '/webhooks/:hook' ? shop : acme;
        if (isOfPartner && status < 300 && !watched.slots.at(-1)?.endsWith(` ${owner}`))
          problems.push(`${name}: ${watched.slots.join(', ')}`);
      }
      assert.deepEqual(problems, []);
      const reading = [...statuses].filter(
        ([{ method, route }]) => method !== 'HEAD' && !isPage(method, route.url),
      );
      assert.deepEqual(await unreached(world, reading), []);
      const count = [...statuses.values()].filter((received) => received.has(200)).length;
      assert.ok(count > 150, `${count} responses with the status 200`);
    });
  });
}
