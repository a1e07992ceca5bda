import { sql } from 'kysely';
import type { Actor } from '../../../engine/effects/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import type { Sealing } from '../../access/secrets/index.ts';
import { type Language, TranslatedError } from '../../admin-ui/shell/index.ts';
import type { ErasureInput, PersonalTraces } from './erase-person.ts';
import { tableLabel } from './table-labels.ts';
import type { ErasureState } from './tables.ts';
import { erasureTexts } from './texts/index.ts';

const { later } = erasureTexts;

/** The stored result of a search, as displayed on its page. */
type Summary = Omit<PersonalTraces, 'records' | 'rows' | 'mentions'> & {
  readonly records: readonly (readonly [string, readonly string[]])[];
  readonly rows: readonly (readonly [string, number])[];
  readonly mentions: readonly (readonly [string, readonly string[]])[];
};

/** A request: the person to erase, and the member who started the search or confirmed the erasure. */
interface ErasureRequest {
  readonly wish: Omit<ErasureInput, 'organization'>;
  readonly actor: Actor;
  /** The language of the page. Absent in requests of older versions. */
  readonly language?: Language;
}

/** An erasure, as displayed on its page. */
interface ErasureStatus {
  readonly id: string;
  readonly state: ErasureState;
  readonly request: string;
  readonly result: string;
  readonly error: string;
  readonly searched: string;
}

/** Maximum number of concurrent searches and erasures per organization. */
const maxActive = 3;
/** Retention periods for unconfirmed searches and completed erasures, in minutes. */
const [confirmMinutes, erasedMinutes] = [60, 24 * 60];
/** How long a claim lasts unless it is renewed, in seconds. */
const claimSeconds = 60;
/** Delay before a failed erasure is retried, in seconds. Shorter than the interval at which processes look for erasures. */
const retrySeconds = 5;

/** States in which a process is working on an erasure. */
const active = ['searching', 'erasing'] as const;

/**
 * Queues a search.
 * @returns the search's ID
 * @throws UserError if too many searches or erasures are in progress
 */
export async function requestSearch(tables: Tables, organization: string, request: string): Promise<string> {
  // The row lock serializes concurrent requests, so that they cannot exceed the limit together.
  await sql`select from crm_organizations where id = ${organization}::bigint for update`.execute(tables);
  const activeCount = await tables
    .selectFrom('crm_erasures')
    .select(({ fn }) => fn.countAll<string>().as('count'))
    .where('organization_id', '=', organization)
    .where('state', 'in', active)
    .executeTakeFirstOrThrow();
  if (Number(activeCount.count) >= maxActive)
    throw new TranslatedError(later('tooManyActive', { max: String(maxActive) }));
  const { id } = await tables
    .insertInto('crm_erasures')
    .values({
      ...{ organization_id: organization, state: 'searching', request },
      ...{ result: '', error: '', searched: '0', claimed_until: null },
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
}

/** Returns one of an organization's erasures. @throws UserError if it does not exist */
export async function findErasure(tables: Tables, organization: string, id: string): Promise<ErasureStatus> {
  const row = await tables
    .selectFrom('crm_erasures')
    .select(['id', 'state', 'request', 'result', 'error', 'searched'])
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .executeTakeFirst();
  if (row === undefined) throw new TranslatedError(later('expired'));
  return row;
}

/** Starts erasing a search result. @throws UserError if there is no result, or it is already confirmed */
export async function confirmErasure(
  tables: Tables,
  organization: string,
  id: string,
  request: string,
): Promise<void> {
  const isConfirmed = await changeState(tables, organization, id, 'found', { state: 'erasing', request });
  if (!isConfirmed) throw new TranslatedError(later('alreadyStarted'));
}

/** Cancels a search or discards its result. An erasure in progress cannot be canceled. */
export const cancelSearch = async (tables: Tables, organization: string, id: string): Promise<void> => {
  await tables
    .deleteFrom('crm_erasures')
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .where('state', 'in', ['searching', 'found', 'nothing', 'failed'])
    .execute();
};

/** An erasure claimed by a process. */
export interface ClaimedErasure {
  readonly organization: string;
  readonly id: string;
  readonly state: (typeof active)[number];
  readonly request: string;
}

/**
 * Claims the oldest queued erasure, skipping organizations that have an erasure in progress.
 * @returns undefined if the queue is empty
 */
export async function claimErasure(tables: Tables): Promise<ClaimedErasure | undefined> {
  const { rows } = await sql<ClaimedErasure>`
    update crm_erasures e set claimed_until = now() + ${sql.lit(claimSeconds)} * interval '1 second'
    from (
      select organization_id, id from crm_erasures w
      where state in ('searching', 'erasing') and (claimed_until is null or claimed_until < now())
        and not exists (select from crm_erasures o where o.organization_id = w.organization_id and o.claimed_until >= now())
      order by changed_at, id limit 1 for update skip locked
    ) w
    where e.organization_id = w.organization_id and e.id = w.id
    returning e.organization_id::text as organization, e.id::text as id, e.state, e.request`.execute(tables);
  return rows[0];
}

/** Renews a claim. @returns false if the search was canceled */
export async function renewClaim(
  tables: Tables,
  { organization, id, state }: ClaimedErasure,
  searched: number,
): Promise<boolean> {
  const { numUpdatedRows } = await tables
    .updateTable('crm_erasures')
    .set({
      searched: String(searched),
      claimed_until: sql<Date>`now() + ${sql.lit(claimSeconds)} * interval '1 second'`,
    })
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .where('state', '=', state)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Releases a claim so that another process can continue the erasure. */
export const releaseClaim = async (tables: Tables, { organization, id }: ClaimedErasure): Promise<void> => {
  await tables
    .updateTable('crm_erasures')
    .set({ claimed_until: null })
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .execute();
};

/** Schedules another attempt at a failed erasure, after all others in the queue so that it does not block them. */
export const postponeErasure = async (
  tables: Tables,
  { organization, id, state }: ClaimedErasure,
): Promise<void> => {
  await tables
    .updateTable('crm_erasures')
    .set({
      claimed_until: sql<Date>`now() + ${sql.lit(retrySeconds)} * interval '1 second'`,
      changed_at: sql<Date>`now()`,
    })
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .where('state', '=', state)
    .execute();
};

/** An erasure's new state. */
interface Outcome {
  readonly state: ErasureState;
  readonly request?: string;
  readonly result?: string;
  readonly error?: string;
}

/** Changes an erasure's state. @returns false if the erasure is no longer in the expected state */
export async function changeState(
  tables: Tables,
  organization: string,
  id: string,
  expected: ErasureState,
  outcome: Outcome,
): Promise<boolean> {
  const { numUpdatedRows } = await tables
    .updateTable('crm_erasures')
    .set({ ...outcome, claimed_until: null, changed_at: sql<Date>`now()` })
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .where('state', '=', expected)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Deletes expired searches and completed erasures. */
export const removeExpired = async (tables: Tables): Promise<void> => {
  await sql`delete from crm_erasures where state not in ('searching', 'erasing')
    and changed_at < now() - case when state = 'erased' then ${sql.lit(erasedMinutes)} else ${sql.lit(confirmMinutes)} end * interval '1 minute'`.execute(
    tables,
  );
};

/** Encrypts and decrypts erasure requests and results. */
export const sealedErasures = ({ seal, open }: Sealing) => ({
  sealRequest: (request: ErasureRequest): Promise<string> => seal(JSON.stringify(request)),
  openRequest: async (sealed: string): Promise<ErasureRequest> =>
    JSON.parse(await open(sealed)) as ErasureRequest,
  sealResult: ({ records, texts, changes, rows, mentions }: PersonalTraces): Promise<string> =>
    seal(
      JSON.stringify({
        ...{ texts, changes },
        ...{ records: [...records], rows: [...rows], mentions: [...mentions] },
      } satisfies Summary),
    ),
  openResult: async (sealed: string): Promise<PersonalTraces> => {
    const { texts, changes, records, rows, mentions } = JSON.parse(await open(sealed)) as Summary;
    return {
      ...{ texts, changes },
      records: new Map(records),
      rows: new Map(rows) as PersonalTraces['rows'],
      mentions: new Map(mentions),
    };
  },
});

/** Describes where and how much data about a person was found. */
export function describeTraces(
  { records, changes, rows }: PersonalTraces,
  language: Language = 'en',
): (readonly [location: string, description: string])[] {
  const t = erasureTexts(language);
  return [
    ...[...records]
      .filter(([, ids]) => ids.length > 0)
      .map(
        ([name, ids]) =>
          [
            name,
            ids.length === 1
              ? t('recordId', { id: ids.join(', ') })
              : t('recordIds', { ids: ids.join(', ') }),
          ] as const,
      ),
    ...(changes > 0 ? [[t('changes'), String(changes)] as const] : []),
    ...[...rows]
      .filter(([, count]) => count > 0)
      .map(([table, count]) => [tableLabel(table, language), String(count)] as const),
  ];
}

/** Lists the records that mention the person but stay unchanged. */
export const mentionsOf = ({ mentions }: PersonalTraces): string =>
  [...mentions].map(([name, ids]) => `${name} ${ids.join(', ')}`).join('; ');

/** Converts a search result to the command's JSON output. */
export const asJsonObject = (traces: PersonalTraces) => ({
  records: Object.fromEntries(traces.records),
  texts: traces.texts,
  changes: traces.changes,
  rows: Object.fromEntries(traces.rows),
  mentions: Object.fromEntries(traces.mentions),
});
