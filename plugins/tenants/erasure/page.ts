import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
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
  joinTexts,
  type Language,
  type ListDefinition,
  languageOf,
  type ObjectContext,
  type ObjectServices,
  section,
  sectionList,
  TranslatedError,
} from '../../admin-ui/shell/index.ts';
import { createErasure, type ErasureInput, type PersonalTraces } from './erase-person.ts';
import {
  cancelSearch,
  confirmErasure,
  describeTraces,
  findErasure,
  mentionsOf,
  requestSearch,
  sealedErasures,
} from './erasure-requests.ts';
import { erasureTexts } from './texts/index.ts';
import { runErasures } from './worker.ts';

const { later } = erasureTexts;

/** The organization's slug and the language of a page. */
interface PageContext {
  readonly slug: string;
  readonly language: Language;
}

const contextOf = ({ membership: { organization, slug } }: CurrentMember, request: FastifyRequest) => ({
  ...{ organization, slug, language: languageOf(request) },
});

/** A completed erasure. */
interface CompletedErasure {
  readonly id: string;
  readonly at: Date;
  readonly actor_kind: string;
  readonly actor_name: string | null;
}

/** Completed erasures, newest first. */
const completedErasures: ListDefinition<CompletedErasure, ObjectContext<ObjectServices>> = {
  plural: later('rows'),
  source: {
    from: 'crm_ledger l',
    owner: 'l.organization_id',
    where: `l.object = 'person' and l.object_id is null and l.action = 'forget'`,
    columns: { id: 'l.id', at: 'l.at', actor_kind: 'l.actor_kind', actor_name: 'l.actor_name' },
    search: ['l.actor_name'],
    order: 'l.at desc, l.id',
  },
  columns: [
    { title: later('when'), cell: ({ at }) => ({ time: at }), by: 'l.at' },
    {
      title: later('by'),
      cell: ({ actor_kind: kind, actor_name: name }, { language }) => ({
        text: name ?? (kind === 'command' ? erasureTexts(language)('commandLine') : kind),
      }),
      by: 'lower(l.actor_name)',
    },
  ],
  empty: later('none'),
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
  const formPage = (
    { slug, language }: PageContext,
    form: Form,
    cancel: string,
  ): FormPage & { kind: 'form' } => {
    const t = erasureTexts(language);
    return {
      kind: 'form',
      title: t('erasePerson'),
      intro: t('formIntro'),
      action: urlOf(slug, 'find'),
      inputs: [
        {
          kind: 'lines',
          name: 'records',
          label: t('records'),
          value: field(form, 'records'),
          help: example === undefined ? t('recordsHelp') : t('recordsExample', { example }),
          focus: true,
        },
        {
          kind: 'lines',
          name: 'texts',
          label: t('searchTerms'),
          value: field(form, 'texts'),
          help: t('searchTermsHelp'),
        },
      ],
      submit: t('findData'),
      cancel,
    };
  };
  const question = (
    { slug, language }: PageContext,
    id: string,
    traces: PersonalTraces,
    cancel: string,
  ): ConfirmPage & { kind: 'confirm' } => {
    const t = erasureTexts(language);
    const mentions = mentionsOf(traces);
    return {
      kind: 'confirm',
      title: t('question'),
      consequence: joinTexts([
        traces.texts.length === 0 ? t('consequence') : t('consequenceOf', { terms: traces.texts.join(', ') }),
        t('backups'),
        ...(mentions === '' ? [] : [t('unchanged', { mentions })]),
      ]),
      values: describeTraces(traces, language).map(([label, count]) => ({
        ...{ label, before: count, after: t('erased') },
      })),
      action: urlOf(slug, 'forget'),
      hidden: [{ name: 'id', value: id }],
      inputs: [
        {
          kind: 'line',
          name: 'word',
          label: t('typeWord', { word: t('word') }),
          required: true,
          autocomplete: 'off',
        },
      ],
      submit: t('erasePermanently'),
      cancel,
    };
  };
  /** Returns the page that shows the progress or outcome of a search or erasure. */
  const erasurePage = async (
    { organization, ...context }: PageContext & { readonly organization: string },
    params: Form,
    back: string,
  ): Promise<AnyPage & { title: string }> => {
    const { slug, language } = context;
    const t = erasureTexts(language);
    const erasure = await findErasure(tablesOf(database), organization, idField(params, 'id'));
    const { id, state, result, error, searched, request } = erasure;
    if (state === 'found') return question(context, id, await sealed.openResult(result), back);
    if (state === 'failed' || state === 'nothing') {
      const { wish } = await sealed.openRequest(request);
      const form = { records: wish.records.join('\n'), texts: wish.texts.join('\n') };
      const problem = state === 'failed' ? error : t('nothingFound');
      return { ...formPage(context, form, back), problem };
    }
    if (state === 'erased')
      return {
        kind: 'record',
        title: t('personErased'),
        intro: t('allErased'),
        values: [],
        links: [{ label: t('back'), href: back }],
      };
    return {
      kind: 'record',
      title: state === 'searching' ? t('searching') : t('erasing'),
      intro: app.isReadOnly?.() === true ? t('readOnly') : t('refreshes'),
      values: [{ label: t('rowsSearched'), text: Number(searched).toLocaleString(language), numeric: true }],
      links: [{ label: t('refreshPage'), href: pageOf(slug, id) }],
      buttons:
        state === 'searching'
          ? [
              {
                label: t('cancelSearch'),
                name: t('cancelSearch'),
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
    title: later('erasePerson'),
    group: 'Data',
    icon: 'eraser',
    isTranslated: true,
    done: { 'search-canceled': later('searchCanceled') },
    load: async (admin, request, language) => {
      const start = {
        label: later('erasePerson')(language),
        icon: 'eraser' as const,
        href: urlOf(admin.membership.slug, 'find'),
      };
      const list = await listErasures(admin, request, language);
      return { ...list, primary: start, empty: { ...list.empty, link: list.empty.link ?? start } };
    },
    pages: {
      find: async (admin, { form, request, back }) => formPage(contextOf(admin, request), form, back),
      search: (admin, { form, request, back }) => erasurePage(contextOf(admin, request), form, back),
      // Redisplays the page if the confirmation word is wrong.
      forget: (admin, { form, request, back }) => erasurePage(contextOf(admin, request), form, back),
    },
    once: ['forget'],
    actions: {
      find: async ({ membership: { organization, slug }, actor, transact }, form, page) => {
        const { records, texts } = inputOf(organization, form);
        const customFields = await customFieldsOf(organization);
        erasure.check({ organization, records, texts, customFields });
        const request = await sealed.sealRequest({
          wish: { records, texts },
          actor,
          language: languageOf(page),
        });
        const id = await transact((tables) => requestSearch(tables, organization, request));
        erasures.runNow();
        return { to: pageOf(slug, id) };
      },
      cancel: async ({ membership: { organization }, transact }, form) => {
        await transact((tables) => cancelSearch(tables, organization, idField(form, 'id')));
        return { done: 'search-canceled' };
      },
      forget: async ({ membership: { organization, slug }, actor, transact }, form, page) => {
        const language = languageOf(page);
        const id = idField(form, 'id');
        const word = later('word');
        if (field(form, 'word').trim().toLowerCase() !== word(language))
          throw new TranslatedError((inLanguage) =>
            erasureTexts(inLanguage)('typeToConfirm', { word: word(inLanguage) }),
          );
        const erasure = await findErasure(tablesOf(database), organization, id);
        if (erasure.state !== 'found') throw new TranslatedError(later('alreadyStarted'));
        const { wish } = await sealed.openRequest(erasure.request);
        // The change log attributes the erasure to the member who confirmed it.
        const request = await sealed.sealRequest({ wish, actor, language });
        await transact((tables) => confirmErasure(tables, organization, id, request));
        erasures.runNow();
        return { to: pageOf(slug, id) };
      },
    },
  });
}
