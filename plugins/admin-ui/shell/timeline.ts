import type { FastifyInstance } from 'fastify';
import { type RawBuilder, sql } from 'kysely';
import type { Field } from '../../../engine/fields/index.ts';
import type { RecordValues } from '../../../engine/records/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import type { Membership } from '../../access/identity/index.ts';
import type { Language } from './catalogue.ts';
import type { RecordPage } from './views.ts';

/** A period of a timeline, and the maximum number of entries to read from it. */
export interface TimelinePeriod {
  /**
   * Exclusive end. An entry belongs to the period if its time is earlier, or the same with a smaller ID. The time is an RFC 3339
   * timestamp, and the ID is a decimal string. If absent, the period has no end.
   */
  readonly before?: { readonly at: string; readonly id: string } | undefined;
  /** Inclusive start, as an RFC 3339 timestamp. If absent, the period has no start. */
  readonly from?: string | undefined;
  readonly limit: number;
}

/** The record whose timeline is displayed, as the member sees it. */
export interface TimelineRecord {
  readonly organization: string;
  /** The resource's stored name. */
  readonly resource: string;
  /** The record's ID as a decimal string. */
  readonly record: string;
  /** The fields that the member can read. */
  readonly fields: readonly Field[];
  readonly values: RecordValues;
}

/** A member's request for entries of a timeline. */
export interface TimelineRequest extends TimelineRecord, TimelinePeriod {
  readonly tables: Tables;
  readonly membership: Membership;
  /** Whether the member can open the organization's setup. False while an administrator views records as a profile. */
  readonly canOpenSetup: boolean;
  readonly language: Language;
}

/** An entry in a timeline. */
export interface TimelineEntry extends Omit<NonNullable<RecordPage['changes']>['all'][number], 'at'> {
  /** Decimal string, unique in its source. Later entries with the same time have a larger ID. */
  readonly id: string;
  /** RFC 3339 timestamp in microseconds. */
  readonly at: string;
  /** ID of the user who wrote the entry. The timeline displays the user's name as the actor. */
  readonly author?: string;
}

/** Adds entries to the timelines of records. */
export interface TimelineSource {
  /** Identifies the source in URLs. Contains only lowercase letters and hyphens. */
  readonly name: string;
  /** Returns the newest entries in a period, newest first. They must show only what the member can see. */
  readonly read: (request: TimelineRequest) => Promise<readonly TimelineEntry[]>;
}

declare module 'fastify' {
  interface FastifyInstance {
    timelineSources: TimelineSource[];
  }
}

/** Adds entries to the timelines of records. Among entries with the same time, those of earlier sources come first. */
export function addTimelineSource(app: FastifyInstance, source: TimelineSource): void {
  app.timelineSources.push(source);
}

/** Returns the SQL condition that a row belongs to a period. @param columns SQL expressions for the row's time and ID */
export function inPeriod(
  { before, from }: Omit<TimelinePeriod, 'limit'>,
  { at, id }: { readonly at: string; readonly id: string },
): RawBuilder<boolean> {
  const [time, key] = [sql.raw(at), sql.raw(id)];
  const conditions = [
    ...(before === undefined
      ? []
      : [sql`(${time}, ${key}) < (${before.at}::text::timestamptz, ${before.id}::bigint)`]),
    ...(from === undefined ? [] : [sql`${time} >= ${from}::text::timestamptz`]),
  ];
  return conditions.length === 0 ? sql`true` : sql`(${sql.join(conditions, sql` and `)})`;
}

/** Returns an SQL expression for a time as an RFC 3339 timestamp in microseconds. */
export const microseconds = (time: string): RawBuilder<string> =>
  sql`to_char(${sql.raw(time)} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;
