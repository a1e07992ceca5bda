import type { TableRows } from '../../engine/tables/index.ts';
import type { QueueRow } from './tables.ts';

/** A table whose rows are items of a queue. */
export type QueueTable = {
  [Name in keyof TableRows]: TableRows[Name] extends QueueRow ? Name : never;
}[keyof TableRows];

/** Items that wait to be processed; each belongs to an owner, and that to an organization. SQL in it has no values of requests. */
export interface Queue {
  /** Its name in the log and among background work. */
  readonly name: string;
  /** What its items are called, as in "there is no … 7". */
  readonly item: string;
  readonly table: QueueTable;
  readonly owner: {
    readonly table: keyof TableRows;
    /** The column of the items with its id. */
    readonly column: string;
    /** SQL of whether items of an owner `g` are processed at the moment. */
    readonly isOpen: string;
  };
  /** SQL of whether an item `w` that is due may be processed; absent: always. */
  readonly isReady?: string;
  /** SQL of whether others were not ready because of an item `i`; absent: never. */
  readonly isFollowed?: string;
  /** SQL of what to call an item `i`. */
  readonly title: string;
  /** SQL of what to show of an item `i`, a text. */
  readonly detail: string;
  /** Columns of a claimed item besides those that all have: of the item `i` and its owner `g`. */
  readonly claims: string;
  /** How long a claim holds, in seconds; after that another node may claim the item. Longer than its processing may take. */
  readonly leaseSeconds: number;
  /** Items that a node processes at the same time, and how many it claims at once at most: each claim is a statement. */
  readonly concurrency: number;
  readonly batch: number;
}
