// Every statement started by a request, on every route in the router, goes through admission for the
// request's organization.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Watched, watchAdmission } from '../support/admitted.ts';
import { publicUrl } from '../support/channels.ts';
import { type Client, startClient } from '../support/hostile/client.ts';
import { routesOf } from '../support/hostile/routes.ts';
import { partnerSecrets, type Target, targetsOf } from '../support/hostile/targets.ts';
import { drivers, type Instance, startInstance } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { entries, organization, variables } from '../support/payments.ts';
import { openScreens } from '../support/screens.ts';

const { environment } = settingsFile(
  {
    public_url: publicUrl,
    partners: {
      booking_forms_whatsapp: { secrets: ['${BOOKING_FORMS_WHATSAPP_TOKEN}'], organization: 'acme' },
      payments: entries,
    },
    messaging: { acme: { sender: 'log' } },
  },
  { ...variables, ...partnerSecrets },
);

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
  /_last_used|for update( of \w+)? skip locked/,
  // Later processing of channel events that earlier routes stored, and retention.
  /meta_leadgen_id|crm_(received_messages|secret_uses|erasures)|hashtextextended/,
];

/**
 * Lookups of a session and its memberships, which are cached briefly. Their organization is still unknown.
 */
const authentication = /from "crm_(sessions|memberships)" as "[sm]"/;

/** Returns the body that a route's own clients send. */
function bodyOf({ method, expected: { type, shape } }: Target): Buffer | undefined {
  if (method === 'GET') return undefined;
  return Buffer.from(
    type === 'application/json'
      ? JSON.stringify(shape)
      : new URLSearchParams(shape as Record<string, string>).toString(),
  );
}

for (const driver of drivers) {
  describe(`request statements (${driver})`, () => {
    let instance: Instance;
    let client: Client;
    let watched: Watched;
    let acme: string;
    let shop: string;
    const targets: Target[] = [];
    before(async () => {
      client = startClient();
      const router = await routesOf(() => startInstance(driver, { environment }));
      instance = router.built;
      const screens = await openScreens(instance);
      shop = (await instance.organization(organization)).id;
      acme = screens.acme.id;
      const world = { instance, screens, acme: screens.acme, clerk: await screens.administrator() };
      for (const route of router.routes(instance.app)) targets.push(...(await targetsOf(world, route)));
      await screens.settled();
      watched = await watchAdmission(instance);
    });
    after(async () => {
      watched?.stop();
      await client?.close();
      await instance?.close();
    });

    test('each statement holds a slot, and organization statements hold a slot of that organization', async () => {
      const statuses = new Map<number, number>();
      const problems: string[] = [];
      for (const target of targets) {
        const name = `${target.method} ${target.route.url}`;
        for (const list of [watched.outside, watched.background, watched.inside, watched.slots])
          list.length = 0;
        const body = bodyOf(target);
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
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
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
      assert.ok((statuses.get(200) ?? 0) > 60, JSON.stringify([...statuses]));
    });
  });
}
