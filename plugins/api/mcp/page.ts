import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { resourceLabel } from '../../../engine/definition/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { isRowId, isStorable } from '../../../engine/fields/index.ts';
import { assertWritable } from '../../../engine/http/index.ts';
import type { RowSource } from '../../../engine/tables/index.ts';
import { type ConnectorSettings, isMcpEnabled } from '../../access/oauth/index.ts';
import type { InstanceSecrets } from '../../access/secrets/index.ts';
import {
  type KeptChange,
  maxUndoneChanges,
  prepareUndo,
  type RecordChange,
} from '../../admin-ui/records/index.ts';
import {
  addObjects,
  adminOf,
  defineObject,
  type Language,
  linkWithParameters,
  localeOf,
  type ObjectContext,
  type Text,
} from '../../admin-ui/shell/index.ts';
import { callRetentionDays } from './calls.ts';
import { agentsTexts } from './texts/index.ts';

/** Services used by the page. */
export interface PageServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly secrets: InstanceSecrets;
  readonly settings: { readonly current: { readonly mcp: ConnectorSettings } };
}

const { later } = agentsTexts;

/** A call in the list. */
interface CallRow {
  readonly id: string;
  readonly keyId: string;
  readonly key: string;
  readonly tool: string;
  readonly resource: string;
  readonly read: number;
  readonly written: number;
  /** Whether the key only proposes writes. */
  readonly proposes: boolean;
  readonly run: string | null;
  readonly requestId: string;
  readonly at: Date;
}

const callRows: RowSource<CallRow> = {
  from: 'crm_agent_calls a join crm_api_keys k on k.organization_id = a.organization_id and k.id = a.key_id',
  owner: 'a.organization_id',
  columns: {
    id: 'a.id',
    keyId: 'a.key_id',
    key: 'k.name',
    tool: 'a.tool',
    resource: 'a.resource',
    read: 'a.records_read',
    written: 'a.records_written',
    proposes: 'k.proposes',
    run: 'a.run',
    requestId: 'a.request_id',
    at: 'a.at',
  },
  search: ['k.name', 'a.tool', 'a.resource', 'a.run'],
  order: 'a.id desc',
};

/** Maximum number of changes listed before they are undone, and of changes listed because they were not undone. */
const [maxListed, maxKept] = [200, 20];

/** Calls whose changes are undone together: the calls of a run, or the calls of a key since a call. */
type Group = 'run' | 'since';

/** Returns the request IDs of a group of calls, and when the first of them was stored. */
async function requestsOf(
  { tables, organization }: ObjectContext<PageServices>,
  { id, keyId, run, requestId, at }: CallRow,
  group: Group,
): Promise<{ readonly ids: readonly string[]; readonly since: Date }> {
  if (group === 'run' && run === null) return { ids: [requestId], since: at };
  const query = tables
    .selectFrom('crm_agent_calls')
    .select(['request_id', 'at'])
    .where('organization_id', '=', organization)
    .where('key_id', '=', keyId);
  const rows = await (group === 'run' ? query.where('run', '=', run) : query.where('id', '>=', id)).execute();
  return {
    ids: rows.map((row) => row.request_id),
    since: new Date(Math.min(...rows.map((row) => row.at.getTime()))),
  };
}

/** Returns a line about a change to a record with a title. */
type ChangeLine = (t: ReturnType<typeof agentsTexts>, record: { readonly title: string }) => Text;

/** The lines about changes. */
const changeLines: Readonly<Record<RecordChange['action'], ChangeLine>> = {
  create: (t, record) => t('create', record),
  update: (t, record) => t('update', record),
  delete: (t, record) => t('delete', record),
  trash: (t, record) => t('trash', record),
  restore: (t, record) => t('restore', record),
  purge: (t, record) => t('purge', record),
};

const changeLine = ({ action, title }: RecordChange, language: Language): Text =>
  changeLines[action](agentsTexts(language), { title });

/** Returns why a change was not undone. */
function keptLine({ change, reason }: KeptChange, language: Language): Text {
  const t = agentsTexts(language);
  const line = { change: changeLine(change, language) };
  if (reason === 'changed') return t('reasonChanged', line);
  if (reason === 'dependents') return t('reasonDependents', line);
  return t('reasonError', { ...line, error: reason.message });
}

/** Returns the title of the page that confirms the undo. */
function questionOf(t: ReturnType<typeof agentsTexts>, { run, key }: CallRow, group: Group): Text {
  if (group === 'since') return t('undoSinceQuestion', { key });
  return run === null ? t('undoQuestion') : t('undoRunQuestion');
}

/** Adds the list of agents' calls to an organization's setup, from which administrators undo changes. */
export function agentsPage(app: FastifyInstance, services: PageServices): void {
  const undoOf = prepareUndo(app, services);
  /** Returns the changes of a group of calls, and the function that undoes them. @throws UserError without changes, or with too many */
  const changesOf = async (context: ObjectContext<PageServices>, row: CallRow, group: Group) => {
    const { request, language } = context;
    const { ids, since } = await requestsOf(context, row, group);
    const { list, undo } = await undoOf(request, context);
    const changes = await list(ids, since);
    const t = agentsTexts(language);
    if (changes.length === 0) throw new UserError(t('noChanges'));
    if (changes.length > maxUndoneChanges)
      throw new UserError(t('tooMany', { limit: maxUndoneChanges.toLocaleString(localeOf(request)) }));
    const assertAllowed = async () => {
      assertWritable(app);
      request.person = await app.identify(request);
      adminOf(app, request);
    };
    return { changes, undo: () => undo(changes, assertAllowed) };
  };
  /** Returns the action that undoes the changes of a group of calls. */
  const undoing = (group: Group) => ({
    label: (language: Language, { run }: CallRow): Text => {
      const t = agentsTexts(language);
      if (group === 'since') return t('undoSince');
      return run === null ? t('undo') : t('undoRun');
    },
    isOffered: ({ written, proposes }: CallRow) => written > 0 && !proposes,
    page: async (context: ObjectContext<PageServices>, _form: unknown, row: CallRow) => {
      const { language } = context;
      const t = agentsTexts(language);
      const { changes } = await changesOf(context, row, group);
      const hidden = changes.length - maxListed;
      return {
        kind: 'confirm' as const,
        title: questionOf(t, row, group),
        consequence: t('consequence'),
        items: [
          ...changes.slice(0, maxListed).map((change) => changeLine(change, language)),
          ...(hidden > 0 ? [t('more', { count: hidden })] : []),
        ],
        submit: t('submit', { count: changes.length }),
      };
    },
    done: { [`agent-${group}-undone`]: later('undone') },
    run: async (context: ObjectContext<PageServices>, _form: unknown, row: CallRow) => {
      const { language } = context;
      const t = agentsTexts(language);
      const { undo } = await changesOf(context, row, group);
      const { undone, kept } = await undo();
      const count = t('changes', { count: undone });
      if (kept.length === 0) return { done: `agent-${group}-undone`, name: count };
      const lines = kept.slice(0, maxKept).map((change) => keptLine(change, language));
      if (kept.length > maxKept) lines.push(t('more', { count: kept.length - maxKept }));
      return { view: { problem: t('partly', { undone: count, kept: lines.join('; ') }) } };
    },
  });
  const calls = defineObject<CallRow, PageServices>({
    name: 'agents',
    title: later('agents'),
    group: 'Access',
    icon: 'activity',
    isListed: () => isMcpEnabled(services),
    plural: later('rows'),
    source: callRows,
    missing: (id) => later('missing', { id }),
    nameOf: ({ tool, resource }) => `${tool} ${resource}`,
    views: {
      all: { label: later('all') },
      writes: { label: later('writes'), where: 'a.records_written > 0' },
    },
    filters: {
      run: {
        where: (value) => (isStorable(value) ? sql`a.run = ${value}` : undefined),
        label: async (value, { language }) => agentsTexts(language)('oneRun', { run: value }),
      },
      key: {
        where: (value) => (isRowId(value) ? sql`a.key_id = ${value}::bigint` : undefined),
        label: async (value, { tables, organization, language }) => {
          const key = await tables
            .selectFrom('crm_api_keys')
            .select('name')
            .where('organization_id', '=', organization)
            .where('id', '=', value)
            .executeTakeFirst();
          return key?.name ?? agentsTexts(language)('deletedKey');
        },
      },
    },
    isUncounted: true,
    columns: [
      { title: later('time'), cell: ({ at }) => ({ time: at }) },
      {
        title: later('key'),
        cell: ({ key, keyId }, { urlOf }) => ({
          text: key,
          href: linkWithParameters(urlOf(), {}, { key: keyId }),
        }),
      },
      { title: later('tool'), cell: ({ tool }) => ({ text: tool }) },
      {
        title: later('resource'),
        cell: ({ resource }) => {
          const known = services.resources.find(({ name }) => name === resource);
          return { text: known === undefined ? resource : resourceLabel(known.definition) };
        },
      },
      { title: later('read'), cell: ({ read }) => ({ text: String(read), numeric: true }) },
      { title: later('written'), cell: ({ written }) => ({ text: String(written), numeric: true }) },
      {
        title: later('run'),
        cell: ({ run }, { urlOf }) =>
          run === null ? {} : { text: run, href: linkWithParameters(urlOf(), {}, { run }) },
      },
    ],
    empty: later('none', { count: callRetentionDays }),
    rowActions: { undo: undoing('run'), 'undo-since': undoing('since') },
  });
  addObjects(app, services, [calls]);
}
