import type { EntitySchema } from '@mikro-orm/core';
import type { Variable } from '../config/index.ts';
import type { Placeholder } from '../sql/index.ts';

/** The kind of write. With a trash, `trash` and `restore` move records to it and back, and `purge` deletes them from it. */
export type WriteAction = 'create' | 'update' | 'delete' | 'trash' | 'restore' | 'purge';

/** The parts of a write's input that are available to effects. */
export interface WriteInput {
  readonly caller: EffectCaller;
}

/** The caller of a write, and the request ID. */
export interface EffectCaller {
  readonly principal: {
    /** `command` denotes a CLI command, `partner` a partner endpoint. */
    readonly kind: 'key' | 'user' | 'command' | 'partner';
    /** ID of the key or user as decimal text, or null for CLI commands and partners. */
    readonly actor: string | null;
    /** The key's name or the user's email address, or null for CLI commands and partners. */
    readonly name: string | null;
  };
  readonly requestId: string;
}

/** Additional work in the same statement as a write: it is atomic and avoids another round trip. */
export interface Effect {
  /** The environment variable that enables the effect. */
  readonly variable: Variable<boolean>;
  /** The effect's tables, whose names start with `crm_`. */
  readonly tables: readonly EntitySchema[];
  readonly on: readonly WriteAction[];
  /**
   * Returns a common table expression with an INSERT, UPDATE or DELETE from `source`, which has one row for
   * each written record. A SELECT would not run, because PostgreSQL skips SELECT expressions that the
   * statement does not read. The expression's name must start with `written` and be unique among the
   * effects. Input values must be passed as placeholders, because the statement can have a batch form.
   */
  readonly expression: (context: {
    readonly resource: string;
    readonly action: WriteAction;
    /** Name of the common table expression that writes the records, for example `_written`. */
    readonly written: string;
    /** FROM clause items that select the written rows, joined to their inputs in a batch form. */
    readonly source: string;
    /**
     * ORDER BY clause for the rows in `source`, starting with a space; empty if a request writes at most one of them. Positions
     * in the change log would otherwise reveal the order of the rows in the table, which changes with hidden fields.
     */
    readonly order: string;
    /** Alias of a written row in `source`: the row after the write, or before it if the row is deleted. */
    readonly row: string;
    /** SQL list of the columns that can be logged. Refers to the record's row by the alias `t`. */
    readonly columns: string;
    /** SQL expression for these columns of the written row as JSON, if the statement already computes it. */
    readonly json?: string | undefined;
    readonly placeholder: Placeholder<WriteInput>;
  }) => string;
  /** Returns an INSERT statement to run before a list is exported. Absent if exports are ignored. */
  readonly ofExport?: (context: {
    readonly resource: string;
    /** SQL expression for the organization's ID. */
    readonly organization: string;
    readonly placeholder: Placeholder<WriteInput>;
  }) => string;
  /** How a merge moves what the effect has stored for a record. Absent if everything stays with the record. */
  readonly ofMerge?: {
    /** Name of the effect's table. */
    readonly table: string;
    /**
     * Returns an UPDATE statement that moves the rows of a record to the record into which it is merged, and returns their
     * column `id`. The parameters are SQL expressions.
     */
    readonly move: (context: {
      readonly resource: string;
      readonly organization: string;
      /** ID of the record that remains. */
      readonly id: string;
      /** ID of the record that is merged into it. */
      readonly from: string;
      /** A SELECT statement for the IDs of the rows. All rows of the record if absent. */
      readonly rows?: string;
    }) => string;
  };
}
