// A scripted agent performs ten tasks of a CRM with recorded calls, within a budget of tokens.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { configured, sendMessage } from '../support/agents.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';

/** Maximum number of tokens for all calls and their results, without and with the list of tools. See docs/agents.md. */
const [maxTokens, maxTokensWithTools] = [2500, 4000];
/** Rough number of characters of JSON per token. */
const charactersPerToken = 4;

type Values = Readonly<Record<string, unknown>>;

onBothDrivers(
  'Ten tasks of an agent',
  (instance) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
      const post = async (resource: string, values: Values) => {
        const { status, json, text } = await instance().call(`POST /api/v1/${resource}`, {
          key: acme.key,
          body: values,
        });
        assert.equal(status, 201, text);
        return Number(json.id);
      };
      for (let number = 1; number <= 30; number++) {
        const name = String(number).padStart(2, '0');
        const account = await post('accounts', { name: `Account ${name}` });
        await post('leads', {
          ...{ first_name: 'Ada', last_name: `Lead ${name}`, company: `Company ${name}` },
          ...{ email: `lead-${name}@people.example`, rating: number % 3 === 0 ? 'Hot' : 'Cold' },
          description: 'A long text about what the lead wants. '.repeat(20),
        });
        await post('opportunities', {
          ...{ name: `Opportunity ${name}`, account_id: account, amount: number * 100 },
          ...{ stage: number % 2 === 0 ? 'Prospecting' : 'Negotiation' },
        });
        await post('cases', { subject: `Case ${name}`, priority: number % 5 === 0 ? 'High' : 'Low' });
      }
    });

    test('are done with few calls and few tokens', async () => {
      let characters = 0;
      const send = async (message: Values): Promise<Values> => {
        const answer = await sendMessage(instance(), acme.key, message);
        assert.equal(answer.status, 200, answer.text);
        const { result } = answer.json as {
          readonly result: { readonly content?: readonly { readonly text: string }[] };
        };
        // The text and the structured content of a result are the same; a model reads one of them.
        const shown = result.content?.map(({ text }) => text).join('') ?? JSON.stringify(result);
        characters += JSON.stringify(message.params ?? {}).length + shown.length;
        return result;
      };
      const use = async (name: string, input: Values = {}): Promise<Values> => {
        const { isError, structuredContent } = await send({
          method: 'tools/call',
          params: { name, arguments: input },
        });
        assert.equal(isError, undefined, JSON.stringify(structuredContent));
        return structuredContent as Values;
      };
      const only = (list: unknown): Values => {
        const [first, ...others] = list as readonly Values[];
        assert.deepEqual(others, []);
        return first ?? assert.fail('nothing found');
      };

      // 1. What is there, and what may I do?
      const { resources } = await use('describe');
      assert.equal((resources as readonly unknown[]).length, 5);
      // 2. Who is lead-07@people.example?
      const { where } = await use('describe', { resource: 'leads' });
      assert.equal((where as Values).email, 'eq in');
      const lead = only(
        (
          await use('find', {
            ...{ resource: 'leads', where: { field: 'email', op: 'eq', value: 'lead-07@people.example' } },
          })
        ).records,
      );
      assert.equal(lead.last_name, 'Lead 07');
      // 3. What does the lead want?
      const { record } = await use('get', { resource: 'leads', id: lead.id, fields: ['description'] });
      assert.match(String((record as Values).description), /^A long text/);
      // 4. Add a lead from a conversation, without adding it twice.
      const create = {
        ...{ resource: 'leads', values: { first_name: 'Grace', last_name: 'Hopper', company: 'Navy' } },
        idempotency_key: 'conversation-1',
      };
      const created = (await use('create', create)).record as Values;
      assert.equal((await use('create', create)).replayed, true);
      // 5. Make the lead hot, after looking at what would change.
      const update = { resource: 'leads', id: created.id, values: { rating: 'Hot' } };
      assert.deepEqual((await use('update', { ...update, dry_run: true })).changes, {
        rating: { to: 'Hot' },
      });
      await use('update', update);
      // 6. How much is in the pipeline, by stage?
      const { groups } = await use('aggregate', {
        ...{ resource: 'opportunities', group_by: ['stage'], measure: ['sum(amount)', 'count()'] },
      });
      assert.deepEqual(
        (groups as readonly Values[]).map(({ stage, 'count()': count }) => [stage, count]).sort(),
        [
          ['Negotiation', 15],
          ['Prospecting', 15],
        ],
      );
      // 7. The three largest deals that are being negotiated, with their accounts.
      const deals = (
        await use('find', {
          ...{ resource: 'opportunities', where: { field: 'stage', op: 'eq', value: 'Negotiation' } },
          ...{ sort: '-amount', fields: ['name', 'amount', 'account_id'], limit: 3 },
        })
      ).records as readonly Values[];
      assert.deepEqual(
        deals.map(({ name }) => name),
        ['Opportunity 29', 'Opportunity 27', 'Opportunity 25'],
      );
      const [largest] = deals;
      assert.deepEqual((largest?.account_id as Values | undefined)?.name, 'Account 29');
      // 8. Move the largest one to the next stage.
      await use('update', { resource: 'opportunities', id: largest?.id, values: { stage: 'Closed Won' } });
      // 9. Who did that?
      const { changes } = await use('history', { resource: 'opportunities', id: largest?.id });
      assert.deepEqual((changes as readonly Values[])[0]?.changes, {
        stage: { from: 'Negotiation', to: 'Closed Won' },
      });
      // 10. Remove the lead, which turned out to be a mistake.
      await use('delete', { resource: 'leads', id: created.id });

      const tokens = Math.round(characters / charactersPerToken);
      assert.ok(tokens <= maxTokens, `${tokens} tokens`);
      await send({ method: 'tools/list' });
      const all = Math.round(characters / charactersPerToken);
      assert.ok(all <= maxTokensWithTools, `${all} tokens`);
    });
  },
  { environment: configured('tasks', 'mcp: true\n') },
);
