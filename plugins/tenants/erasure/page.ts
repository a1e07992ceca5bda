import type { FastifyInstance } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import { type InstanceSecrets, sealing } from '../../access/secrets/index.ts';
import {
  type AnyPage,
  type ConfirmPage,
  type CurrentMember,
  type Form,
  type FormPage,
  field,
  idField,
  listing,
  section,
} from '../../admin-ui/shell/index.ts';
import { createErasure, type ErasureInput, type PersonalTraces } from './erasure.ts';
import { cancelSearch, confirmErasure, findErasure, requestSearch, sealedErasures } from './erasures.ts';
import { describeTraces, mentionsOf } from './texts.ts';
import { runErasures } from './worker.ts';

/** What is typed so that somebody is erased. */
const word = 'forget';

/** What the pages need of a running service. */
export interface ForgettingServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly secrets: InstanceSecrets;
}

/** Who was forgotten when, and the way to forget somebody else. */
export function erasurePages(
  app: FastifyInstance,
  { database, resources, secrets }: ForgettingServices,
): void {
  const forgetting = createErasure(resources);
  const sealed = sealedErasures(sealing(secrets));
  const erasures = runErasures(app, { database, forgetting, sealed });
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
    id: string,
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
      hidden: [{ name: 'id', value: id }],
      inputs: [{ kind: 'line', name: 'word', label: `Type “${word}”`, required: true, autocomplete: 'off' }],
      submit: 'Forget for good',
      cancel,
    };
  };
  /** The page of a search or an erasure: how far it is, or how it ended. */
  const erasurePage = async (
    { membership: { organization, slug } }: CurrentMember,
    given: Form,
    back: string,
  ): Promise<AnyPage & { title: string }> => {
    const erasure = await findErasure(tablesOf(database), organization, idField(given, 'id'));
    const { id, state, result, error, searched, request } = erasure;
    if (state === 'found') return question(slug, id, await sealed.openResult(result), back);
    if (state === 'failed' || state === 'nothing') {
      const { wish } = await sealed.openRequest(request);
      const form = { records: wish.records.join('\n'), texts: wish.texts.join('\n') };
      const problem = state === 'failed' ? error : 'there is nothing of this person';
      return { ...formPage(slug, form, back), problem };
    }
    if (state === 'erased')
      return {
        kind: 'record',
        title: 'This person is forgotten',
        intro: 'What there was of this person is erased.',
        values: [],
        links: [{ label: 'Back', href: back }],
      };
    return {
      kind: 'record',
      title: state === 'searching' ? 'Searching…' : 'Erasing…',
      intro:
        app.isReadOnly?.() === true
          ? 'This instance is read-only at the moment. It continues afterwards.'
          : 'This page is updated by itself. You can leave it and come back.',
      values: [{ label: 'Rows searched', text: Number(searched).toLocaleString('en'), numeric: true }],
      links: [{ label: 'Update now', href: pageOf(slug, id) }],
      buttons:
        state === 'searching'
          ? [
              {
                label: 'Cancel search',
                name: 'Cancel search',
                action: address(slug, 'cancel'),
                fields: [{ name: 'id', value: id }],
              },
            ]
          : [],
      refreshSeconds: 2,
    };
  };
  const pageOf = (slug: string, id: string) => `${address(slug, 'search')}?id=${id}`;

  section(app, database, {
    name: 'forgetting',
    title: 'Forgetting',
    done: { 'search-canceled': 'The search is canceled.' },
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
      search: (admin, { given, back }) => erasurePage(admin, given, back),
      // Shown again if the word is not the one that is asked for.
      forget: (admin, { given, back }) => erasurePage(admin, given, back),
    },
    once: ['forget'],
    actions: {
      find: async ({ membership: { organization, slug }, actor, transact }, form) => {
        const { records, texts } = wishOf(organization, form);
        forgetting.check({ organization, records, texts });
        const request = await sealed.sealRequest({ wish: { records, texts }, actor });
        const id = await transact((tables) => requestSearch(tables, organization, request));
        erasures.now();
        return { to: pageOf(slug, id) };
      },
      cancel: async ({ membership: { organization }, transact }, form) => {
        await transact((tables) => cancelSearch(tables, organization, idField(form, 'id')));
        return { done: 'search-canceled' };
      },
      forget: async ({ membership: { organization, slug }, actor, transact }, form) => {
        const id = idField(form, 'id');
        if (field(form, 'word').trim().toLowerCase() !== word)
          throw new UserError(`type “${word}” to erase it`);
        const erasure = await findErasure(tablesOf(database), organization, id);
        if (erasure.state !== 'found')
          throw new UserError('this search has expired, or its erasure was started before');
        const { wish } = await sealed.openRequest(erasure.request);
        // The erasure is the work of the member who confirmed it.
        const request = await sealed.sealRequest({ wish, actor });
        await transact((tables) => confirmErasure(tables, organization, id, request));
        erasures.now();
        return { to: pageOf(slug, id) };
      },
    },
  });
}
