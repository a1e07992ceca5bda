import type { FastifyInstance } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { tablesOf, transaction } from '../../../engine/tables/index.ts';
import {
  type ConfirmPage,
  type Form,
  type FormPage,
  field,
  listing,
  section,
} from '../../admin-ui/shell/index.ts';
import { createErasure, type ErasureInput, type PersonalTraces } from './erasure.ts';
import { describeTraces, mentionsOf } from './texts.ts';

/** What is typed so that somebody is erased. */
const word = 'forget';

/** Who was forgotten when, and the way to forget somebody else. */
export function erasurePages(
  app: FastifyInstance,
  { database, resources }: { readonly database: Database; readonly resources: readonly Resource[] },
): void {
  const forgetting = createErasure(resources);
  const lines = (form: Form, name: string) =>
    field(form, name)
      .split(/\r?\n/)
      .map((line) => line.trim())
      .filter((line) => line !== '');
  const wishOf = (organization: string, form: Form): ErasureInput => ({
    organization,
    records: lines(form, 'records'),
    texts: lines(form, 'texts'),
  });
  const address = (slug: string, page: string) => `/setup/o/${slug}/forgetting/${page}`;
  const example = resources
    .flatMap(({ name, definition }) =>
      definition.fields
        .filter(({ lookup }) => lookup !== undefined)
        .map((each) => `${name}?${each.name}=ada@example.com`),
    )
    .at(0);
  const formPage = (slug: string, form: Form, cancel: string): FormPage & { kind: 'form' } => ({
    kind: 'form',
    title: 'Forget a person',
    intro: 'The next page shows what there is of the person, before anything is erased.',
    action: address(slug, 'find'),
    inputs: [
      {
        kind: 'lines',
        name: 'records',
        label: 'The person’s records',
        value: field(form, 'records'),
        help: `One resource and filter a line${example === undefined ? '' : `, as in ${example}`}`,
        focus: true,
      },
      {
        kind: 'lines',
        name: 'texts',
        label: 'What only this person has',
        value: field(form, 'texts'),
        help: 'One e-mail address, telephone number or name a line. What partners sent is looked through for it.',
      },
    ],
    submit: 'Find',
    cancel,
  });
  const question = (
    slug: string,
    form: Form,
    traces: PersonalTraces,
    cancel: string,
  ): ConfirmPage & { kind: 'confirm' } => {
    const mentions = mentionsOf(traces);
    const stays =
      mentions === '' ? '' : ` These records mention the person and stay as they are: ${mentions}.`;
    return {
      kind: 'confirm',
      title: 'Forget this person?',
      consequence: `It is erased for good: records, what the ledger kept of them, and what was received or sent with ${traces.texts.join(', ') || 'no text'} in it. Backups keep it until they are removed.${stays}`,
      values: describeTraces(traces).map(([label, what]) => ({ label, before: what, after: 'erased' })),
      action: address(slug, 'forget'),
      hidden: ['records', 'texts'].map((name) => ({ name, value: field(form, name) })),
      inputs: [{ kind: 'line', name: 'word', label: `Type “${word}”`, required: true, autocomplete: 'off' }],
      submit: 'Forget for good',
      cancel,
    };
  };
  const find = (organization: string, form: Form) =>
    transaction(database, (tables) => forgetting.find(tables, wishOf(organization, form)));

  section(app, database, {
    name: 'forgetting',
    title: 'Forgetting',
    done: { forgotten: 'What there was of this person is erased.' },
    load: async ({ membership: { organization, slug } }, request) => {
      const start = { label: 'Forget a person', href: address(slug, 'find') };
      const done = await tablesOf(database)
        .selectFrom('crm_ledger')
        .select(['id', 'at', 'actor_kind', 'actor_name'])
        .where('organization_id', '=', organization)
        .where('object', '=', 'person')
        .where('object_id', 'is', null)
        .where('action', '=', 'forget')
        .orderBy('at', 'desc')
        .limit(1000)
        .execute();
      return {
        primary: start,
        ...listing(request, done, {
          searchLabel: 'Search by who did it',
          text: ({ actor_name: name }) => name ?? '',
          columns: [
            { title: 'When', cell: ({ at }) => ({ time: at }), by: ({ at }) => at.toISOString() },
            {
              title: 'By',
              cell: ({ actor_kind: kind, actor_name: name }) => ({
                text: name ?? (kind === 'command' ? 'command line' : kind),
              }),
            },
          ],
          row: ({ id }) => ({ id }),
          empty: { text: 'Nobody was forgotten.', link: start },
        }),
      };
    },
    pages: {
      find: async ({ membership: { slug } }, { given, back }) => formPage(slug, given, back),
      forget: async ({ membership: { organization, slug } }, { given, back }) =>
        question(slug, given, await find(organization, given), back),
    },
    once: ['forget'],
    actions: {
      find: async ({ membership: { organization, slug } }, form) => {
        const traces = await find(organization, form);
        if (describeTraces(traces).length === 0) throw new UserError('there is nothing of this person');
        return { page: question(slug, form, traces, address(slug, 'find')) };
      },
      forget: async ({ membership: { organization }, actor, transact }, form) => {
        if (field(form, 'word').trim().toLowerCase() !== word)
          throw new UserError(`type “${word}” to erase it`);
        await transact((tables) => forgetting.forget(tables, actor, wishOf(organization, form)));
        return { done: 'forgotten' };
      },
    },
  });
}
