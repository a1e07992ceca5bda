// The life cycle of an integration in the admin UI, from adding it to removing it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inBrowser } from '../support/browser.ts';
import { whatsappBody } from '../support/channels.ts';
import { deliver } from '../support/partners.ts';
import { until } from '../support/process.ts';
import { steps } from '../support/steps.ts';

inBrowser('integrations in a browser', (world) => {
  const { enter, go, choose, addIntegration, row } = steps(world);

  test('WhatsApp: add, confirm, inspect and replay a delivery, disable, enable, change the secret, remove', async () => {
    const { instance } = world();
    const { acme, page } = await enter({ permissions: ['clipboard-read', 'clipboard-write'] });
    const waitForStatus = (text: string) => page.getByRole('status').getByText(text).waitFor();
    await page.getByRole('link', { name: 'Integrations' }).click();
    await page.getByText('Integrations receive messages and leads').waitFor();
    const shown = await addIntegration(page, 'Main number', 'WhatsApp Cloud', 'first-secret');
    let copies = 0;
    const copied = async (button: string) => {
      await page.getByRole('button', { name: button }).click();
      // Earlier buttons still show "Copied".
      await page.getByRole('button', { name: 'Copied' }).nth(copies++).waitFor();
      return `${await page.evaluate('navigator.clipboard.readText()')}`;
    };
    const address = await copied('Copy URL');
    const token = await copied('Copy token');
    assert.deepEqual({ address, verifyToken: token }, shown, 'the copied values are those shown');
    assert.ok(address.startsWith(`${instance.url}/webhooks/channels/whatsapp/`), address);
    assert.ok(!address.includes(token));
    assert.doesNotMatch(await page.content(), /first-secret/);
    await page.reload();
    await page.getByRole('alert').getByText('this form was already submitted').waitFor();
    await go(page, acme, 'integrations');
    assert.ok(!(await page.content()).includes(token), 'shown once');
    assert.equal(await row(page, 'Main number').count(), 1, 'created once');
    await page.getByRole('link', { name: 'Main number', exact: true }).click();
    await page.getByText(address, { exact: true }).waitFor();

    const path = new URL(address).pathname;
    const confirm = (verify: string) => {
      const query = { 'hub.mode': 'subscribe', 'hub.verify_token': verify, 'hub.challenge': '1158201444' };
      return instance.call(`GET ${path}?${new URLSearchParams(query)}`);
    };
    const confirmed = await confirm(token);
    assert.deepEqual([confirmed.status, confirmed.text], [200, '1158201444']);
    assert.equal((await confirm(`${token}x`)).status, 403);

    const send = async (id: string, secret: string) => {
      const body = whatsappBody({
        messages: [{ id, from: '1555', type: 'text', text: { body: `Hi ${id}` } }],
      });
      return (await deliver(instance, { path, secret }, body)).status;
    };
    const isDone = (id: string) =>
      until(async () => {
        await go(page, acme, 'deliveries');
        return (
          (await row(page, id)
            .getByText(/^Delivered/)
            .count()) === 1
        );
      }, `the delivery of ${id}`);
    assert.equal(await send('wamid.1', 'first-secret'), 200);
    assert.equal(await send('wamid.1', 'first-secret'), 200, 'a repeated delivery is accepted');
    assert.equal(await send('wamid.2', 'wrong-secret'), 401);
    await isDone('wamid.1');
    await row(page, 'wamid.1').getByText('Main number (WhatsApp Cloud)').waitFor();
    await page.getByText('wamid.1', { exact: true }).click();
    await page.getByText('Hi wamid.1').waitFor();
    await page.getByRole('button', { name: 'Replay wamid.1' }).click();
    await waitForStatus('wamid.1 queued again.');
    await isDone('wamid.1');
    assert.equal(await page.getByRole('row').count(), 2, 'the header and one delivery');
    await page.getByRole('link', { name: 'Failed', exact: true }).click();
    await page.getByText('No deliveries match the filter.').waitFor();

    await page.getByRole('link', { name: 'Integrations' }).click();
    await choose(page, 'Main number', 'Disable');
    await waitForStatus('Its URL responds with 404');
    assert.deepEqual([await send('wamid.3', 'first-secret'), (await confirm(token)).status], [404, 404]);
    await choose(page, 'Main number', 'Enable');
    await waitForStatus('Main number enabled.');
    assert.equal(await send('wamid.3', 'first-secret'), 200);

    await choose(page, 'Main number', 'Change secrets');
    await page.getByLabel('New App secret').fill('second-secret');
    await page.getByRole('button', { name: 'Change secrets' }).click();
    await waitForStatus('Secrets changed for Main number.');
    assert.deepEqual(
      [await send('wamid.4', 'first-secret'), await send('wamid.4', 'second-secret')],
      [401, 200],
    );
    assert.equal((await confirm(token)).status, 200, 'the verify token stays');
    await isDone('wamid.4');

    await go(page, acme, 'integrations');
    await choose(page, 'Main number', 'Remove');
    await page.getByRole('button', { name: 'Remove integration' }).click();
    await waitForStatus('Main number and its deliveries have been removed.');
    await page.getByText('Integrations receive messages and leads').waitFor();
    assert.equal(await send('wamid.5', 'second-secret'), 404);
    await page.getByRole('link', { name: 'Deliveries', exact: true }).click();
    await page.getByText('Events that providers deliver').waitFor();
    await page.getByRole('link', { name: 'Activity' }).click();
    for (const sentence of [
      /^Integration \d+ created$/,
      /^Integration \d+ disabled$/,
      /^Integration \d+ enabled$/,
      /^Secrets changed for integration \d+$/,
      /^Integration \d+ deleted$/,
    ]) {
      await page.getByRole('rowheader', { name: sentence }).first().waitFor();
    }
    await page.getByRole('rowheader', { name: /^Inbox item \d+ replayed$/ }).waitFor();
  });
});
