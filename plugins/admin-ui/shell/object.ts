import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { RawBuilder } from 'kysely';
import type { Database } from '../../../engine/database/index.ts';
import type { RowSource, Tables } from '../../../engine/tables/index.ts';
import type { CurrentMember } from './access.ts';
import type { Language, Text, TextIn } from './catalogue.ts';
import type { Form } from './form.ts';
import type { Placement } from './frame.ts';
import type { ActionOutcome, SubmittedForm } from './section.ts';
import type { AnyPage, ConfirmPage, DisplayValue, FormPage, HiddenField, TableRow } from './views.ts';

/** Services required for every object. */
export interface ObjectServices {
  readonly database: Database;
}

/** A request to display a list. */
export interface ListContext<Services> {
  readonly app: FastifyInstance;
  readonly services: Services;
  readonly request: FastifyRequest;
  /** The language of the list's texts. */
  readonly language: Language;
  readonly tables: Tables;
  /** ID of the organization or user that the rows belong to. */
  readonly owner: string;
  /** Returns the URL of a page below the list's URL, or of the list if no page is specified. */
  readonly urlOf: (page?: string) => string;
}

/** An administrator's request to display or change one of the organization's objects. */
export interface ObjectContext<Services> extends ListContext<Services>, CurrentMember {
  /** The organization's ID and slug. */
  readonly organization: string;
  readonly slug: string;
}

/** A request to run an action. */
interface ActionContext<Services> extends ObjectContext<Services> {
  readonly transact: SubmittedForm['transact'];
}

/** A list view. */
export interface ObjectView {
  readonly label: TextIn;
  /** SQL condition for the view's rows. */
  readonly where?: string;
}

/** A list filter that links can set. */
interface ObjectFilter<Context> {
  /** Returns the condition for a value, or undefined if the value is invalid. */
  readonly where: (value: string) => RawBuilder<unknown> | undefined;
  /** Returns the filter's label. */
  readonly label: (value: string, context: Context) => Promise<string>;
}

/** A list that is searched, sorted and divided into pages by the database. */
export interface ListDefinition<Row extends { readonly id: string }, Context> {
  readonly source: RowSource<Row>;
  /** Condition that all rows meet, in addition to the condition of the source. */
  readonly where?: RawBuilder<unknown>;
  /** Plural noun for the rows, as used within a sentence. */
  readonly plural: TextIn;
  readonly columns: readonly {
    readonly title: TextIn;
    readonly cell: (row: Row, context: Context) => DisplayValue;
    /** SQL expression to sort by. If absent, the list cannot be sorted by this column. */
    readonly by?: string;
  }[];
  /** Views, keyed by their value in the URL. The first one is the default. */
  readonly views?: Readonly<Record<string, ObjectView>>;
  /** Parameter that selects the view. Default: `show`. */
  readonly viewParameter?: string;
  readonly filters?: Readonly<Record<string, ObjectFilter<Context>>>;
  /** Whether pages continue after an ID instead of being numbered, for lists that are too long to count. */
  readonly isUncounted?: true;
  /** Text shown if there are no rows. */
  readonly empty: TextIn;
  readonly intro?: (context: Context) => Text | undefined;
  /** A row's links and buttons, in addition to its actions. */
  readonly menu?: (row: Row, context: Context) => Pick<TableRow, 'links' | 'buttons'>;
}

type Filled = 'action' | 'cancel' | 'hidden';

/** The form or confirmation for an action. Its URL, its row and the link back are added. */
export type ActionPage =
  | ({ readonly kind: 'form'; readonly hidden?: readonly HiddenField[] } & Omit<FormPage<Text>, Filled>)
  | ({ readonly kind: 'confirm' } & Omit<ConfirmPage<Text>, Filled>)
  | (Extract<AnyPage, { readonly kind: 'home' }> & { readonly title: Text });

/** An action that administrators can perform on a row, or on the whole object if `Row` is undefined. */
export interface ObjectAction<Row, Services> {
  /** Label for the link or button. */
  readonly label: (language: Language, row: Row) => Text;
  /** Returns the accessible name for a row with this name. Default: the label and the row's name. */
  readonly accessibleName?: (name: string, row: Row) => TextIn;
  /** Whether the action is offered for a row. Actions recheck their conditions when they run. */
  readonly isOffered?: (row: Row, context: ObjectContext<Services>) => boolean;
  /** The form or confirmation. An action that can be undone does not need one and runs directly. */
  readonly page?: (
    context: ObjectContext<Services>,
    form: Form,
    row: Row,
  ) => ActionPage | Promise<ActionPage>;
  /** Values that the button submits. */
  readonly fields?: (row: Row, context: ObjectContext<Services>) => readonly HiddenField[];
  /** Whether a form runs the action only once, even if it is submitted twice. */
  readonly isOnce?: true;
  /** Messages shown afterwards, keyed by the code in `?done=`. `{}` is replaced with the row's name. */
  readonly done?: Readonly<Record<string, TextIn>>;
  /** Runs the action. If it returns no outcome, the list is shown with the action's message. */
  readonly run: (
    context: ActionContext<Services>,
    form: Form,
    row: Row,
  ) => Promise<ActionOutcome> | Promise<void>;
}

/**
 * An organization's administrative object, for example API keys. Its list, forms and confirmations follow
 * from its definition. Only administrators can open its pages and run its actions.
 */
export interface ObjectDefinition<Row extends { readonly id: string }, Services>
  extends ListDefinition<Row, ObjectContext<Services>>,
    Placement {
  /** Name in the URL. */
  readonly name: string;
  /** Plural noun, as a title. */
  readonly title: TextIn;
  /** Label of the list in a section with several objects. Default: the title. */
  readonly tab?: TextIn;
  /** Returns the message for a row that does not exist. */
  readonly missing: (id: string) => TextIn;
  /** Returns a row's name for messages. */
  readonly nameOf: (row: Row, language: Language) => string;
  /** Pages about a row, keyed by the last segment of their URL. A page without a parent leads back to the list. */
  readonly pages?: Readonly<
    Record<
      string,
      (context: ObjectContext<Services>, row: Row) => Promise<AnyPage<Text> & { readonly title: string }>
    >
  >;
  /** A row's full values that pages truncate. They are sent as plain text, keyed by the last segment of their URL. */
  readonly wholeValues?: Readonly<
    Record<string, (context: ObjectContext<Services>, row: Row) => Promise<string>>
  >;
  /** Actions, keyed by the last segment of their URL. The first is the primary action if it has a page. */
  readonly actions?: Readonly<Record<string, ObjectAction<undefined, Services>>>;
  /** Actions on a row, in menu order. */
  readonly rowActions?: Readonly<Record<string, ObjectAction<Row, Services>>>;
}
