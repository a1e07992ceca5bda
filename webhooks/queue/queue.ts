import type { TableRows } from '../../engine/tables/index.ts';
import type { TextIn } from '../../plugins/admin-ui/shell/index.ts';
import type { Wordings } from './reasons.ts';
import type { QueueRow } from './tables.ts';

/** Name of a table whose rows are queue items. */
type QueueTable = {
  [Name in keyof TableRows]: TableRows[Name] extends QueueRow ? Name : never;
}[keyof TableRows];

/**
 * Definition of a queue. Each item belongs to an owner, which is an organization's integration or
 * subscription. The SQL fragments must not contain values from requests.
 */
export interface Queue {
  /** Name used for the queue in the log and for its background task. */
  readonly name: string;
  /** Noun used for an item in messages. */
  readonly item: string;
  /** Returns the message for an item that does not exist. */
  readonly missing: (id: string) => TextIn;
  readonly table: QueueTable;
  readonly owner: {
    readonly table: keyof TableRows;
    /** Property of log entries that contains the owner's ID. */
    readonly property: string;
    /** Item column that references the owner. */
    readonly column: string;
    /** SQL expression for the name of owner `g`. */
    readonly name: string;
    /** SQL condition that is true if the items of owner `g` can be processed now. */
    readonly isOpen: string;
    /** How a pause of owner `g` that failures have caused ends, if there are such pauses. */
    readonly unpause?: { readonly set: string; readonly where: string };
  };
  /** SQL condition that is true if the due item `w` can be processed. Default: always true. */
  readonly isReady?: string;
  /** SQL condition that is true if other items have been waiting for item `i`. Default: never true. */
  readonly isFollowed?: string;
  /** SQL expression for the title of item `i`. */
  readonly title: string;
  /** SQL expression for the subject of item `i`, as text, if pages create titles in the user's language from it. */
  readonly subject?: string;
  /** SQL expression for the details of item `i`, as text. */
  readonly detail: string;
  /** SQL expression for the time of the next attempt of the waiting item `i` with owner `g`, or null if it has none. */
  readonly nextAt: string;
  /** The wordings of the reasons for failures. */
  readonly reasons: Wordings;
  /** Additional columns to return when item `i` with owner `g` is claimed. */
  readonly claims: string;
  /** Seconds after which another node can claim the item. Must exceed the maximum processing time. */
  readonly leaseSeconds: number;
  /** Maximum number of items that a node processes concurrently, and that one statement can claim. */
  readonly concurrency: number;
  readonly batch: number;
}
