import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

/** An address with the words that lead there. */
export interface Link {
  readonly label: string;
  readonly href: string;
  /** What a screen reader says, where the words alone do not tell which thing is meant. */
  readonly name?: string;
}

/** A field of a form that nobody sees. */
export interface HiddenField {
  readonly name: string;
  readonly value: string;
}

/** One value on a page: at most one of its forms. */
export interface DisplayValue {
  readonly text?: string | null;
  readonly time?: Date | string | null;
  /** Where its text leads. */
  readonly href?: string;
  /** Something that people copy or compare: monospaced. */
  readonly code?: string;
  /** How it is; never by colour alone, so its text says it too. */
  readonly state?: 'good' | 'bad' | 'quiet';
  readonly numeric?: boolean;
  /** A further line below it, in quieter type. */
  readonly below?: string | null;
}

/** A button of a row that needs no page of its own: it can be taken back. */
interface Button {
  readonly label: string;
  readonly name: string;
  readonly action: string;
  readonly fields: readonly HiddenField[];
}

/** A row of a list. */
export interface TableRow {
  readonly id: string;
  readonly cells: readonly DisplayValue[];
  readonly links?: readonly Link[];
  readonly buttons?: readonly Button[];
}

/** A column of a list. */
export interface TableColumn {
  readonly title: string;
  /** Where its title leads: to the same list in the order of this column. */
  readonly href?: string;
  /** The order that the list has, if it is this column's. */
  readonly sorted?: 'ascending' | 'descending' | undefined;
  readonly numeric?: boolean;
}

/** A choice of a list; `current` if it is the one in force. */
export interface Chip extends Link {
  readonly current?: boolean;
  /** Whether its link takes a filter away. */
  readonly isRemoved?: boolean;
}

/** What was just made, shown once. */
export interface Made {
  readonly title: string;
  readonly text: string;
  readonly values: readonly {
    readonly id: string;
    readonly label: string;
    readonly value: string;
    readonly copy: string;
  }[];
  /** A command that uses it. */
  readonly command?: string;
}

/** One field of a form. `kind` names its partial. */
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
    /** A value that is shown and not sent. */
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
  /** Of grants: the actions, and whether each object has them. */
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

/** What every page has. */
interface Page {
  readonly title: string;
  /** The page above. */
  readonly above?: Link;
  /** The one thing to do here. */
  readonly primary?: Link | undefined;
  readonly problem?: string;
  readonly intro?: string | undefined;
  /** After how many seconds the browser loads the page again: it shows work that is under way. */
  readonly refreshSeconds?: number;
}

/** A list of things. */
export interface ListView extends Omit<Page, 'title'> {
  readonly title?: string;
  readonly made?: Made | undefined;
  readonly search?: { readonly label: string; readonly value: string; readonly keep: readonly HiddenField[] };
  readonly chips?: readonly Chip[];
  /** Adds a filter: which, and its value. */
  readonly filter?: {
    readonly keep: readonly HiddenField[];
    readonly fields: readonly { readonly value: string; readonly label: string }[];
    readonly values: readonly string[];
  };
  /** Chooses columns. */
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
  /** Buttons that act on all that the list finds. */
  readonly all?: readonly Button[];
}

/** One thing. */
export interface RecordPage extends Page {
  readonly values: readonly (DisplayValue & {
    readonly label: string;
    readonly isReadOnly?: boolean;
    readonly long?: string;
    /** Where all of a value is that is cut off here. */
    readonly whole?: Link;
  })[];
  readonly changes?: {
    readonly title: string;
    readonly all: readonly {
      readonly at: Date | string;
      readonly text: string;
      readonly fields: readonly {
        readonly label: string;
        readonly before: string;
        readonly after: string;
        /** Where all of the values are that are cut off here. */
        readonly whole: readonly Link[];
      }[];
      readonly link?: Link | undefined;
    }[];
    readonly older?: string | undefined;
  };
  readonly links?: readonly Link[];
  readonly buttons?: readonly Button[];
  /** What destroys it. */
  readonly danger?: Link | undefined;
}

/** A form. */
export interface FormPage extends Page {
  readonly action: string;
  readonly hidden?: readonly HiddenField[];
  readonly inputs: readonly Input[];
  readonly submit: string;
  /** Further ways to send it, by the value of `step`. */
  readonly also?: readonly { readonly label: string; readonly value: string }[];
  readonly cancel: string;
  readonly hasFile?: boolean;
  readonly danger?: Link | undefined;
  /** Lines about what was sent before. */
  readonly report?: readonly string[];
}

/** The question before something that cannot be taken back. */
export interface ConfirmPage extends Page {
  readonly action: string;
  readonly hidden: readonly HiddenField[];
  /** What happens to it. */
  readonly consequence: string;
  readonly values?: readonly { readonly label: string; readonly before: string; readonly after: string }[];
  readonly inputs?: readonly Input[];
  readonly submit: string;
  readonly cancel: string;
  /** Whether it destroys nothing. */
  readonly isSafe?: boolean;
}

/** What needs a person. */
export interface HomePage extends Page {
  readonly lines: readonly {
    readonly state: 'good' | 'bad' | 'warn';
    readonly text: string;
    readonly link?: Link | undefined;
  }[];
  readonly groups?: readonly { readonly title: string; readonly links: readonly Link[] }[];
}

/** Each kind of page with its data. */
export interface Pages {
  readonly list: ListView;
  readonly record: RecordPage;
  readonly form: FormPage;
  readonly confirm: ConfirmPage;
  readonly home: HomePage;
}

/** A page of a kind. */
export type AnyPage = { [Kind in keyof Pages]: { readonly kind: Kind } & Pages[Kind] }[keyof Pages];

const folder = join(import.meta.dirname, 'views');

/** The template of each kind of page. */
export const viewOf = (kind: keyof Pages): string => join(folder, `${kind}.hbs`);

/** The parts of pages by name: `parts/` has a file for each. */
export const partials: readonly (readonly [name: string, text: string])[] = readdirSync(
  join(folder, 'parts'),
).map((file) => [basename(file, '.hbs'), readFileSync(join(folder, 'parts', file), 'utf8').trimEnd()]);

/** The views of a module: handlebars files of its folder. @returns the path of a view by its name */
export const viewsIn =
  (folder: string) =>
  (name: string): string =>
    join(folder, `${name}.hbs`);

/** The input for the name of something new, which gets the focus. */
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
