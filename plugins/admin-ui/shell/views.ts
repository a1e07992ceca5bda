import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

/** A URL and its link text. */
export interface Link {
  readonly label: string;
  readonly href: string;
  /** The accessible name, if the link text alone is ambiguous. */
  readonly name?: string;
}

/** A hidden form field. */
export interface HiddenField {
  readonly name: string;
  readonly value: string;
}

/** A value on a page. At most one of its representations is set. */
export interface DisplayValue {
  readonly text?: string | null;
  readonly time?: Date | string | null;
  /** URL to which the text links. */
  readonly href?: string;
  /** A value that users copy or compare, displayed in a monospaced font. */
  readonly code?: string;
  /** The value's status. The text repeats it, because color alone is not accessible. */
  readonly state?: 'good' | 'bad' | 'quiet';
  readonly numeric?: boolean;
  /** A second line below the value, in a muted style. */
  readonly below?: string | null;
  /** The email address of a person whose name is displayed. Appears as a tooltip. */
  readonly title?: string | null;
}

/** A button in a row. Its action can be undone and therefore does not need its own page. */
interface Button {
  readonly label: string;
  readonly name: string;
  readonly action: string;
  readonly fields: readonly HiddenField[];
}

/** A row in a list. */
export interface TableRow {
  readonly id: string;
  /** The name in the label of the row's menu. Default: the text of the first cell. */
  readonly label?: string;
  readonly cells: readonly DisplayValue[];
  readonly links?: readonly Link[];
  readonly buttons?: readonly Button[];
}

/** A column in a list. */
interface TableColumn {
  readonly title: string;
  /** URL of the same list, sorted by this column. */
  readonly href?: string;
  /** Sort direction, if the list is sorted by this column. */
  readonly sorted?: 'ascending' | 'descending' | undefined;
  readonly numeric?: boolean;
}

/** An alternative view of a list, or an active filter. `current` marks the selected view. */
export interface Chip extends Link {
  readonly current?: boolean;
  /** Whether the link removes a filter. */
  readonly isRemoved?: boolean;
}

/** A newly created secret, shown only once. */
export interface SecretNotice {
  readonly title: string;
  readonly text: string;
  readonly values: readonly {
    readonly id: string;
    readonly label: string;
    readonly value: string;
    readonly copy: string;
  }[];
  /** An example command that uses the value. */
  readonly command?: string;
}

/** A form field. `kind` is the name of its partial. */
export interface Input {
  readonly kind:
    | 'line'
    | 'lines'
    | 'number'
    | 'checkbox'
    | 'choice'
    | 'suggestions'
    | 'secret'
    | 'email'
    | 'day'
    | 'file'
    | 'grants'
    | 'checkboxes'
    /** A value that is displayed but not submitted. */
    | 'fixed';
  readonly name: string;
  readonly label: string;
  readonly value?: string;
  readonly checked?: boolean;
  readonly required?: boolean;
  readonly help?: string | undefined;
  readonly error?: string | undefined;
  readonly maxLength?: number;
  readonly autocomplete?: string;
  readonly focus?: boolean;
  readonly options?: readonly {
    readonly value: string;
    readonly label: string;
    readonly selected?: boolean;
  }[];
  /** The grants matrix: the actions and, for each object, whether each action is granted. */
  readonly actions?: readonly string[];
  readonly objects?: readonly {
    readonly label: string;
    readonly cells: readonly {
      readonly value: string;
      readonly name: string;
      readonly granted: boolean;
      readonly fixed?: boolean;
    }[];
  }[];
}

/** Data common to all pages. */
interface Page {
  readonly title: string;
  /** The parent page. */
  readonly above?: Link;
  /** The page's primary action. */
  readonly primary?: Link | undefined;
  readonly problem?: string;
  readonly intro?: string | undefined;
  /** Number of seconds after which the browser reloads the page, for pages that show work in progress. */
  readonly refreshSeconds?: number;
}

/** A page with a list. */
export interface ListView extends Omit<Page, 'title'> {
  readonly title?: string;
  readonly made?: SecretNotice | undefined;
  readonly search?: { readonly label: string; readonly value: string; readonly keep: readonly HiddenField[] };
  readonly chips?: readonly Chip[];
  /** A form that adds a filter: a field and a value. */
  readonly filter?: {
    readonly keep: readonly HiddenField[];
    readonly fields: readonly { readonly value: string; readonly label: string }[];
    readonly values: readonly string[];
  };
  /** A form that selects the columns. */
  readonly choose?: {
    readonly keep: readonly HiddenField[];
    readonly fields: readonly { readonly value: string; readonly label: string; readonly checked: boolean }[];
  };
  readonly columns: readonly TableColumn[];
  readonly rows: readonly TableRow[];
  readonly empty: { readonly text: string; readonly link?: Link | undefined };
  readonly count?: string | undefined;
  readonly first?: string | undefined;
  readonly next?: string | undefined;
  readonly downloads?: readonly Link[];
  /** Buttons for actions on all matching items. */
  readonly all?: readonly Button[];
}

/** A page about one item. */
export interface RecordPage extends Page {
  readonly values: readonly (DisplayValue & {
    readonly label: string;
    readonly isReadOnly?: boolean;
    readonly long?: string;
    /** Link to the full value, if the value is truncated here. */
    readonly whole?: Link;
  })[];
  readonly changes?: {
    readonly title: string;
    readonly all: readonly {
      readonly at: Date | string;
      /** The change, up to the actor's name. */
      readonly text: string;
      readonly actor: { readonly text: string; readonly title?: string | null };
      readonly fields: readonly {
        readonly label: string;
        readonly before: string;
        readonly after: string;
        /** Links to the full values, if the values are truncated here. */
        readonly whole: readonly Link[];
      }[];
      readonly link?: Link | undefined;
    }[];
    readonly older?: string | undefined;
  };
  readonly links?: readonly Link[];
  readonly buttons?: readonly Button[];
  /** The link to the destructive action. */
  readonly danger?: Link | undefined;
}

/** A page with a form. */
export interface FormPage extends Page {
  readonly action: string;
  readonly hidden?: readonly HiddenField[];
  readonly inputs: readonly Input[];
  readonly submit: string;
  /** Additional submit buttons, each with its `step` value. */
  readonly also?: readonly { readonly label: string; readonly value: string }[];
  readonly cancel: string;
  readonly hasFile?: boolean;
  readonly danger?: Link | undefined;
  /** Report lines about the previous submission. */
  readonly report?: readonly string[];
}

/** The confirmation page for an action that cannot be undone. */
export interface ConfirmPage extends Page {
  readonly action: string;
  readonly hidden: readonly HiddenField[];
  /** The action's consequences. */
  readonly consequence: string;
  readonly values?: readonly { readonly label: string; readonly before: string; readonly after: string }[];
  readonly inputs?: readonly Input[];
  readonly submit: string;
  readonly cancel: string;
  /** Whether the action is not destructive. */
  readonly isSafe?: boolean;
}

/** A page that lists issues that need attention. */
export interface HomePage extends Page {
  readonly lines: readonly {
    readonly state: 'good' | 'bad' | 'warn';
    readonly text: string;
    readonly link?: Link | undefined;
  }[];
  readonly groups?: readonly { readonly title: string; readonly links: readonly Link[] }[];
}

/** Data for each kind of page. */
interface Pages {
  readonly list: ListView;
  readonly record: RecordPage;
  readonly form: FormPage;
  readonly confirm: ConfirmPage;
  readonly home: HomePage;
}

/** A page of any kind. */
export type AnyPage = { [Kind in keyof Pages]: { readonly kind: Kind } & Pages[Kind] }[keyof Pages];

const folder = join(import.meta.dirname, 'views');

/** Returns the template path for a kind of page. */
export const viewOf = (kind: keyof Pages): string => join(folder, `${kind}.hbs`);

/** The partial templates with their names, each from its own file in `parts/`. */
export const partials: readonly (readonly [name: string, text: string])[] = readdirSync(
  join(folder, 'parts'),
).map((file) => [basename(file, '.hbs'), readFileSync(join(folder, 'parts', file), 'utf8').trimEnd()]);

/** Returns a function that resolves a view name to the path of the Handlebars file in a module's folder. */
export const viewsIn =
  (folder: string) =>
  (name: string): string =>
    join(folder, `${name}.hbs`);

/** Returns the input field for a new item's name. The field receives the focus. */
export const nameInput = (value: string, help: string): Input => ({
  kind: 'line',
  name: 'name',
  label: 'Name',
  required: true,
  maxLength: 200,
  value,
  focus: true,
  help,
});
