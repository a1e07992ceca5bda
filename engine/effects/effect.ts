import type { EntitySchema } from '@mikro-orm/core';
import type { Variable } from '../config/index.ts';
import type { Placeholder } from '../sql/index.ts';

/** What a write does with a record. */
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
    /** Id of the key or the user, decimal text; null for the others. */
    readonly actor: string | null;
    /** The name of the key, the address of the user; null for the others. */
    readonly name: string | null;
  };
  readonly requestId: string;
}

/** Further work of a write, in the same statement: both happen or neither, without another round trip. */
export interface Effect {
  /** The environment variable that says whether this instance has it. */
  readonly variable: Variable<boolean>;
  /** Tables of its own; their names begin with `crm_`. */
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
