import type { EntitySchema } from '@mikro-orm/core';
import type { Variable } from '../config/index.ts';
import type { Placeholder } from '../sql/index.ts';

/** The kind of write. */
export type WriteAction = 'create' | 'update' | 'delete';

/** The input of every write that effects may use. */
export interface WriteInput {
  readonly caller: Caller;
}

/** The caller and the request. */
export interface Caller {
  readonly principal: {
    /** `command` is the command line, `partner` a partner endpoint. */
    readonly kind: 'key' | 'user' | 'command' | 'partner';
    /** ID of the key or user as decimal text; null for the command line and partners. */
    readonly actor: string | null;
    /** The key's name or the user's email address; null for the command line and partners. */
    readonly name: string | null;
  };
  readonly requestId: string;
}

/** Additional work in the statement of a write: atomic, and without another round trip. */
export interface Effect {
  /** The environment variable that enables it. */
  readonly variable: Variable<boolean>;
  /** Its tables, whose names start with `crm_`. */
  readonly tables: readonly EntitySchema[];
  readonly on: readonly WriteAction[];
  /**
   * A common table expression, an INSERT, UPDATE or DELETE (PostgreSQL runs no SELECT that nothing reads) from `source`: one row for each record written.
   * Values of the input come by placeholders only: a statement may write for many inputs.
   * Its name begins with that of `written` and is unique among the effects.
   */
  readonly expression: (context: {
    readonly resource: string;
    readonly action: WriteAction;
    /** The expression that wrote the records, such as `_written`. */
    readonly written: string;
    /** Where the rows are selected from: `written`, joined to their inputs where these are many. */
    readonly source: string;
    /** The alias of a written row in `source`: the row of the table, after the write or, where it is deleted, before. */
    readonly row: string;
    /** The columns of a record that may be kept, from a table row called `t`. */
    readonly columns: string;
    /** SQL of the JSON of these columns of the written row, where the statement has it already. */
    readonly json?: string | undefined;
    readonly placeholder: Placeholder<WriteInput>;
  }) => string;
  /** A statement of its own before the records of a list are sent whole, an INSERT; absent: nothing is done then. */
  readonly ofExport?: (context: {
    readonly resource: string;
    /** SQL of the organization's id. */
    readonly organization: string;
    readonly placeholder: Placeholder<WriteInput>;
  }) => string;
}
