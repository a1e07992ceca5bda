import type { FastifyInstance } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { organizationCustomFields } from '../../../engine/records/index.ts';
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
  type ListDefinition,
  type ObjectContext,
  type ObjectServices,
  section,
  sectionList,
} from '../../admin-ui/shell/index.ts';
import { createErasure, type ErasureInput, type PersonalTraces } from './erasure.ts';
import {
  cancelSearch,
  confirmErasure,
  describeTraces,
  findErasure,
  mentionsOf,
  requestSearch,
  sealedErasures,
} from './erasures.ts';
import { erasureTexts } from './texts/index.ts';
import { runErasures } from './worker.ts';

/** The word that confirms an erasure. */
const confirmationWord = 'erase';

/** A completed erasure. */
interface CompletedErasure {
  readonly id: string;
  readonly at: Date;
  readonly actor_kind: string;
  readonly actor_name: string | null;
}

/** Completed erasures, newest first. */
const completedErasures: ListDefinition<CompletedErasure, ObjectContext<ObjectServices>> = {
  plural: 'erasures by administrator',
  source: {
    from: 'crm_ledger l',
    owner: 'l.organization_id',
    where: `l.object = 'person' and l.object_id is null and l.action = 'forget'`,
    columns: { id: 'l.id', at: 'l.at', actor_kind: 'l.actor_kind', actor_name: 'l.actor_name' },
    search: ['l.actor_name'],
    order: 'l.at desc, l.id',
  },
  columns: [
    { title: 'When', cell: ({ at }) => ({ time: at }), by: 'l.at' },
    {
      title: 'By',
      cell: ({ actor_kind: kind, actor_name: name }) => ({
        text: name ?? (kind === 'command' ? 'command line' : kind),
      }),
      by: 'lower(l.actor_name)',
    },
  ],
  empty: 'No erasures yet.',
};

/** Services required for the pages. */
export interface ErasurePageServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
  /** Their records are erased, too. */
  readonly retiredResources?: readonly Resource[];
  readonly secrets: InstanceSecrets;
}

/** Registers the list of past erasures and the pages for a new erasure. */
export function erasurePages(
  app: FastifyInstance,
  { database, resources, retiredResources = [], secrets }: ErasurePageServices,
): void {
  const erasure = createErasure([...resources, ...retiredResources]);
  const sealed = sealedErasures(sealing(secrets));
  const customFieldsOf = (organization: string) =>
    organizationCustomFields(database, resources, organization);
  const erasures = runErasures(app, { database, erasure, sealed, customFieldsOf });
  const lines = (form: Form, name: string) =>
    field(form, name)
      .split(/\r?\n/)
      .map((line) => line.trim())
      .filter((line) => line !== '');
  const inputOf = (organization: string, form: Form): ErasureInput => ({
    organization,
    records: lines(form, 'records'),
    texts: lines(form, 'texts'),
  });
  const urlOf = (slug: string, page: string) => `/setup/o/${slug}/forgetting/${page}`;
  const example = resources
    .flatMap(({ name, definition }) =>
      definition.fields
        .filter(({ lookup }) => lookup !== undefined)
        .map((definition) => `${name}?${definition.name}=ada@example.com`),
    )
    .at(0);
  const formPage = (slug: string, form: Form, cancel: string): FormPage & { kind: 'form' } => ({
    kind: 'form',
    title: 'Erase a person',
    intro: 'The next page shows the data found about the person before anything is erased.',
    action: urlOf(slug, 'find'),
    inputs: [
      {
        kind: 'lines',
        name: 'records',
        label: 'The person’s records',
        value: field(form, 'records'),
        help: `One resource and filter per line${example === undefined ? '' : `, for example ${example}`}`,
        focus: true,
      },
      {
        kind: 'lines',
        name: 'texts',
        label: 'Search terms unique to this person',
        value: field(form, 'texts'),
        help: 'One email address, phone number or name per line. The search finds them in data received from partners.',
      },
    ],
    submit: 'Find data',
    cancel,
  });
  const question = (
    slug: string,
    id: string,
    traces: PersonalTraces,
    cancel: string,
  ): ConfirmPage & { kind: 'confirm' } => {
    const mentions = mentionsOf(traces);
    const unchangedNote =
      mentions === '' ? '' : ` These records mention the person and are left unchanged: ${mentions}.`;
    return {
      kind: 'confirm',
      title: 'Erase this person?',
      consequence: `Permanently erases the person’s records, their entries in the change log, and everything received or sent that contains ${traces.texts.join(', ') || 'these search terms'}. Backups keep the data until they are deleted.${unchangedNote}`,
      values: describeTraces(traces).map(([label, count]) => ({ label, before: count, after: 'erased' })),
      action: urlOf(slug, 'forget'),
      hidden: [{ name: 'id', value: id }],
      inputs: [
        {
          kind: 'line',
          name: 'word',
          label: `Type “${confirmationWord}”`,
          required: true,
          autocomplete: 'off',
        },
      ],
      submit: 'Erase permanently',
      cancel,
    };
  };
  /** Returns the page that shows the progress or outcome of a search or erasure. */
  const erasurePage = async (
    { membership: { organization, slug } }: CurrentMember,
    params: Form,
    back: string,
  ): Promise<AnyPage & { title: string }> => {
    const erasure = await findErasure(tablesOf(database), organization, idField(params, 'id'));
    const { id, state, result, error, searched, request } = erasure;
    if (state === 'found') return question(slug, id, await sealed.openResult(result), back);
    if (state === 'failed' || state === 'nothing') {
      const { wish } = await sealed.openRequest(request);
      const form = { records: wish.records.join('\n'), texts: wish.texts.join('\n') };
      const problem = state === 'failed' ? error : 'no data about this person was found';
      return { ...formPage(slug, form, back), problem };
    }
    if (state === 'erased')
      return {
        kind: 'record',
        title: 'Person erased',
        intro: 'All data found about this person has been erased.',
        values: [],
        links: [{ label: 'Back', href: back }],
      };
    return {
      kind: 'record',
      title: state === 'searching' ? 'Searching…' : 'Erasing…',
      intro:
        app.isReadOnly?.() === true
          ? 'This instance is read-only. The search or erasure will continue when writes are enabled again.'
          : 'This page refreshes automatically. You can leave it and come back later.',
      values: [{ label: 'Rows searched', text: Number(searched).toLocaleString('en'), numeric: true }],
      links: [{ label: 'Refresh page', href: pageOf(slug, id) }],
      buttons:
        state === 'searching'
          ? [
              {
                label: 'Cancel search',
                name: 'Cancel search',
                action: urlOf(slug, 'cancel'),
                fields: [{ name: 'id', value: id }],
              },
            ]
          : [],
      refreshSeconds: 2,
    };
  };
  const pageOf = (slug: string, id: string) => `${urlOf(slug, 'search')}?id=${id}`;

  const listErasures = sectionList(app, { database }, completedErasures, 'forgetting');
  section(app, database, {
    name: 'forgetting',
    title: erasureTexts.later('erasePerson'),
    group: 'Data',
    icon: 'eraser',
    done: { 'search-canceled': 'Search canceled.' },
    load: async (admin, request, language) => {
      const start = {
        label: 'Erase a person',
        icon: 'eraser' as const,
        href: urlOf(admin.membership.slug, 'find'),
      };
      const list = await listErasures(admin, request, language);
      return { ...list, primary: start, empty: { ...list.empty, link: list.empty.link ?? start } };
    },
    pages: {
      find: async ({ membership: { slug } }, { form, back }) => formPage(slug, form, back),
      search: (admin, { form, back }) => erasurePage(admin, form, back),
      // Redisplays the page if the confirmation word is wrong.
      forget: (admin, { form, back }) => erasurePage(admin, form, back),
    },
    once: ['forget'],
    actions: {
      find: async ({ membership: { organization, slug }, actor, transact }, form) => {
        const { records, texts } = inputOf(organization, form);
        const customFields = await customFieldsOf(organization);
        erasure.check({ organization, records, texts, customFields });
        const request = await sealed.sealRequest({ wish: { records, texts }, actor });
        const id = await transact((tables) => requestSearch(tables, organization, request));
        erasures.runNow();
        return { to: pageOf(slug, id) };
      },
      cancel: async ({ membership: { organization }, transact }, form) => {
        await transact((tables) => cancelSearch(tables, organization, idField(form, 'id')));
        return { done: 'search-canceled' };
      },
      forget: async ({ membership: { organization, slug }, actor, transact }, form) => {
        const id = idField(form, 'id');
        if (field(form, 'word').trim().toLowerCase() !== confirmationWord)
          throw new UserError(`type “${confirmationWord}” to confirm the erasure`);
        const erasure = await findErasure(tablesOf(database), organization, id);
        if (erasure.state !== 'found')
          throw new UserError('this search has expired, or its erasure has already started');
        const { wish } = await sealed.openRequest(erasure.request);
        // The change log attributes the erasure to the member who confirmed it.
        const request = await sealed.sealRequest({ wish, actor });
        await transact((tables) => confirmErasure(tables, organization, id, request));
        erasures.runNow();
        return { to: pageOf(slug, id) };
      },
    },
  });
}
