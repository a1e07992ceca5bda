import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Text } from './catalogue.ts';
import type { IconName } from './icon.ts';

/** A URL and its link text. */
export interface Link {
  readonly label: string;
  readonly href: string;
  /** The accessible name, if the link text alone is ambiguous. */
  readonly name?: string;
  readonly icon?: IconName;
  /** Whether the URL is a file that the browser saves. */
  readonly isFile?: boolean;
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
  /** Whether `href` leaves the admin UI: a website, an email address or a phone number. */
  readonly isExternal?: boolean;
  /** Displays the text as a badge with this hue, starting at 1. */
  readonly hue?: number;
  /** Whether the text is a person's name, which is displayed with an avatar. */
  readonly isPerson?: boolean;
  /** A value that users copy or compare, displayed in a monospaced font. */
  readonly code?: string;
  /** The value's status. The text repeats it, because color alone is not accessible. */
  readonly state?: 'good' | 'bad' | 'quiet';
  readonly numeric?: boolean;
  /** A second line below the value, in a muted style. */
  readonly below?: string | null;
  /** Values that changed, which are shown when the user opens them. Their labels are always visible. */
  readonly changes?:
    | readonly { readonly label: string; readonly before: string; readonly after: string }[]
    | undefined;
  /** The exact value, or the email address of a person whose name is displayed. Appears as a tooltip. */
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
  readonly cells: readonly (DisplayValue & {
    /** URL of the row's page with the form for this value, which the script opens in the cell. */
    readonly edit?: string;
  })[];
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
  /** The column's position among several by which the list is sorted, starting at 1. */
  readonly position?: number;
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
export interface Input<Words extends string = string> {
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
  readonly label: Words;
  readonly value?: string;
  readonly checked?: boolean;
  readonly required?: boolean;
  readonly help?: Words | undefined;
  readonly error?: Words | undefined;
  readonly maxLength?: number;
  readonly autocomplete?: string;
  readonly focus?: boolean;
  readonly options?: readonly {
    readonly value: string;
    readonly label: string;
    readonly selected?: boolean;
  }[];
  /** The option of a choice that stands for a value which is entered as text, and the input for the text. */
  readonly other?: {
    readonly value: string;
    readonly name: string;
    readonly label: Words;
    readonly text: string;
  };
  /**
   * The grants matrix: the actions and, for each object, whether each action is granted. A cell is empty if the action
   * cannot be granted on the object.
   */
  readonly actions?: readonly string[];
  readonly objects?: readonly {
    readonly label: string;
    readonly cells: readonly {
      readonly value?: string;
      readonly name?: string;
      readonly granted?: boolean;
      readonly fixed?: boolean;
    }[];
  }[];
}

/** Data common to all pages. */
interface Page<Words extends string = string> {
  readonly title: Words;
  /** The parent page. */
  readonly above?: Link;
  /** The page's primary action. */
  readonly primary?: Link | undefined;
  readonly problem?: Words;
  readonly intro?: Words | undefined;
  /** Number of seconds after which the browser reloads the page, for pages that show work in progress. */
  readonly refreshSeconds?: number;
}

/** A form that filters a list by several fields. A blank value does not filter. */
export interface QuickFilters {
  readonly keep: readonly HiddenField[];
  readonly selects: readonly {
    readonly name: string;
    readonly label: string;
    readonly options: NonNullable<Input['options']>;
  }[];
  /** URL of the page that saves the list with the selected filters as a view, if the user can save views. */
  readonly save: string | undefined;
}

/** A page with a list. */
export interface ListView extends Omit<Page, 'title'> {
  readonly title?: string;
  readonly made?: SecretNotice | undefined;
  /** A note about the list, for example that parts of a saved view are ignored. */
  readonly hint?: string | undefined;
  /** The saved views of the list. */
  readonly views?: {
    readonly tabs: readonly (Chip & { readonly isShared?: boolean })[];
    /** Links to the forms that save and change views. */
    readonly links: readonly Link[];
    /** The form that stores the list's filters, search, order and columns in the current view. */
    readonly save: { readonly action: string; readonly value: string } | undefined;
  };
  readonly search?: { readonly label: string; readonly value: string; readonly keep: readonly HiddenField[] };
  readonly chips?: readonly Chip[];
  /** The menu that adds a filter: links to the fields and, after a field has been selected, the form for its value. */
  readonly filter?: {
    readonly isOpen: boolean;
    readonly fields: readonly Link[];
    readonly quick?: QuickFilters | undefined;
    readonly form?: {
      readonly title: string;
      readonly keep: readonly HiddenField[];
      /** URL of the list of fields. */
      readonly back: string;
      readonly operators: NonNullable<Input['options']>;
      readonly input?: Input & { readonly hasNotes: boolean };
    };
  };
  /** A form that sorts the list by several fields, of which all but the first are optional. */
  readonly sort?:
    | {
        readonly keep: readonly HiddenField[];
        readonly keys: readonly {
          readonly fieldName: string;
          readonly directionName: string;
          readonly label: string;
          readonly directionLabel: string;
          readonly fields: NonNullable<Input['options']>;
          readonly directions: NonNullable<Input['options']>;
        }[];
      }
    | undefined;
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
  readonly previous?: string | undefined;
  readonly next?: string | undefined;
  readonly downloads?: readonly Link[];
  /** Buttons for actions on all matching items. */
  readonly all?: readonly Button[];
  /** The actions on selected rows. Their pages receive the selected IDs as `id`, and the list's query string as `query`. */
  readonly selection?:
    | {
        readonly query: string;
        readonly actions: readonly (Link & {
          /** The value of `step`, for an action that applies to all items that match the filters. */
          readonly step?: string;
          /** Whether the action needs exactly two rows. */
          readonly isPair?: boolean;
        })[];
      }
    | undefined;
}

/** A form for one of the values on a page. */
export interface ValueForm {
  readonly action: string;
  readonly hidden: readonly HiddenField[];
  readonly input: Input;
  /** URL of the page without the form. */
  readonly cancel: string;
}

/** A page about one item. */
export interface RecordPage extends Page {
  /** Links to the previous and next item of the list from which the page was opened, without a URL at its ends. */
  readonly neighbors?:
    | readonly (Omit<Link, 'href'> & { readonly rel: 'prev' | 'next'; readonly href: string | undefined })[]
    | undefined;
  /** Sentences about the result of a job. */
  readonly report?: readonly string[];
  /** Values displayed below the title. */
  readonly badges?: readonly DisplayValue[];
  readonly values: readonly (DisplayValue & {
    readonly label: string;
    /** Whether the server maintains the value, for example the ID. */
    readonly isSystem?: boolean;
    /** Whether the value is omitted if it is empty. */
    readonly isOptional?: boolean;
    readonly long?: string;
    /** Whether `long` is displayed in a monospaced font. */
    readonly isCode?: boolean;
    /** Link to the full value, if the value is truncated here. */
    readonly whole?: Link;
    /** Link to this page with the form for this value. */
    readonly edit?: Link;
    /** The form for this value, in place of the value. */
    readonly form?: ValueForm;
  })[];
  /** Lists of related items. */
  readonly related?: readonly {
    readonly title: string;
    readonly records: readonly Link[];
    /** Link to the form that adds an item to the list. */
    readonly add?: Link;
    /** Link to the complete list. */
    readonly all?: Link;
  }[];
  /** The item's timeline: its changes, or the attempts of a delivery. */
  readonly changes?: {
    readonly title: string;
    readonly all: readonly {
      readonly at: Date | string;
      readonly icon: IconName;
      /** The change, up to the actor's name, or another event. */
      readonly text: string;
      /** Muted text before the time. */
      readonly detail?: string;
      readonly actor?: { readonly text: string; readonly title?: string | null };
      /** The entry's state, displayed as a badge after the text. */
      readonly badge?: Pick<DisplayValue, 'text' | 'state'>;
      readonly fields?: readonly {
        readonly label: string;
        readonly before: string;
        readonly after: string;
        /** Links to the full values, if the values are truncated here. */
        readonly whole: readonly Link[];
      }[];
      readonly link?: Link | undefined;
      /** The text of a note or message. */
      readonly note?: string;
      readonly links?: readonly Link[];
    }[];
    /** Text without entries. Default: there are no changes. */
    readonly none?: string;
    readonly older?: string | undefined;
    /** The form that adds a note. */
    readonly form?: {
      readonly action: string;
      readonly value: string;
      readonly maxLength: number;
      /** Why the note was rejected. */
      readonly error: string | undefined;
    };
  };
  readonly links?: readonly Link[];
  readonly buttons?: readonly Button[];
  /** A list of items that belong to the item. */
  readonly list?: ListView & { readonly title: string };
  /** The link to the destructive action. */
  readonly danger?: Link | undefined;
}

/** A page with a form. */
export interface FormPage<Words extends string = string> extends Page<Words> {
  readonly action: string;
  readonly hidden?: readonly HiddenField[];
  readonly inputs: readonly Input<Words>[];
  readonly submit: Words;
  /** The `step` value of the primary submit button. */
  readonly step?: string;
  /** Additional submit buttons, each with its `step` value. */
  readonly also?: readonly { readonly label: Words; readonly value: string }[];
  readonly cancel: string;
  readonly hasFile?: boolean;
  readonly danger?: Link | undefined;
  /** Report lines about the previous submission. */
  readonly report?: readonly string[];
}

/** The confirmation page for an action that cannot be undone. */
export interface ConfirmPage<Words extends string = string> extends Page<Words> {
  readonly action: string;
  readonly hidden: readonly HiddenField[];
  /** The action's consequences. */
  readonly consequence: Words;
  readonly links?: readonly Link[];
  /** Names of the affected items. */
  readonly items?: readonly string[];
  readonly values?: readonly { readonly label: string; readonly before: string; readonly after: string }[];
  /** Values of several items side by side. The columns link to the items. */
  readonly comparison?: {
    readonly columns: readonly Link[];
    readonly rows: readonly {
      readonly label: string;
      readonly cells: readonly (DisplayValue & { readonly isKept: boolean })[];
    }[];
  };
  readonly inputs?: readonly Input<Words>[];
  readonly submit: Words;
  /** An additional submit button with its `step` value. */
  readonly also?: { readonly label: Words; readonly value: string } | undefined;
  readonly cancel: string;
  /** Whether the action is not destructive. */
  readonly isSafe?: boolean;
}

/** A page that lists issues that need attention. */
export interface HomePage extends Page, HomeParts {
  /** The checklist of a new organization. */
  readonly steps?:
    | {
        /** URL of the form that hides the checklist. */
        readonly hide: string;
        readonly items: readonly (Link & { readonly isDone: boolean })[];
      }
    | undefined;
  readonly lines: readonly {
    readonly state: 'good' | 'bad' | 'warn';
    readonly text: string;
    readonly link?: Link | undefined;
  }[];
  readonly groups?: readonly {
    readonly title: string;
    /** `below` is a value that tells items with the same label apart. */
    readonly links: readonly (Link & { readonly hue?: number; readonly below?: string | undefined })[];
  }[];
}

/** Charts and lists on the home page, which modules add. */
export interface HomeParts {
  /** Charts with a bar for each value. The texts are also the chart's accessible alternative. */
  readonly charts?: readonly {
    readonly title: string;
    readonly href: string;
    /** Label of the values. */
    readonly label: string;
    /** Label of the counts; "Records" if undefined. */
    readonly countLabel?: string;
    /** Label of the sums; undefined without sums. */
    readonly sumLabel?: string | undefined;
    readonly rows: readonly {
      readonly label: string;
      readonly hue: number;
      readonly href: string;
      readonly count: string;
      /** Length of the bar, in percent of the longest one. */
      readonly share: number;
      readonly sum?: string;
    }[];
  }[];
  /** Tables with a row of bars for each line, for example one for each week. */
  readonly trends?: readonly {
    readonly title: string;
    /** Label of the lines. */
    readonly label: string;
    /** Labels of the numbers, which are the last ones of each line. */
    readonly numberLabels: readonly string[];
    readonly rows: readonly {
      readonly label: string;
      readonly hue: number;
      readonly href: string;
      /** Description of the bars. */
      readonly description: string;
      readonly width: number;
      readonly bars: readonly { readonly x: number; readonly y: number; readonly height: number }[];
      readonly numbers: readonly string[];
    }[];
  }[];
  /** Short lists, for example of recent changes. */
  readonly lists?: readonly {
    readonly title: string;
    readonly items: readonly DisplayValue[];
    readonly all?: Link;
  }[];
}

/** A page with cards in columns. */
export interface BoardPage extends Page {
  /** The fields that can divide the cards into columns. */
  readonly chips: readonly Chip[];
  readonly columns: readonly {
    readonly value: string;
    readonly hue: number;
    readonly count: string;
    readonly sum: string | undefined;
    readonly cards: readonly {
      readonly id: string;
      readonly title: string;
      readonly href: string;
      readonly facts: readonly (DisplayValue & { readonly label: string })[];
    }[];
    /** Link to the list of all of the column's items, if some are not shown. */
    readonly all?: Link;
  }[];
  /** The field that a move changes. Absent if the member is not allowed to move cards. */
  readonly moveBy?: string;
}

/** Data for each kind of page. */
interface Pages<Words extends string = string> {
  readonly list: ListView;
  readonly board: BoardPage;
  readonly record: RecordPage;
  readonly form: FormPage<Words>;
  readonly confirm: ConfirmPage<Words>;
  readonly home: HomePage;
}

/**
 * A page of any kind.
 * @typeParam Words the type of the words in forms and confirmations: {@link Text} if all are texts of a catalogue, labels or values
 */
export type AnyPage<Words extends string = string> = {
  [Kind in keyof Pages]: { readonly kind: Kind } & Pages<Words>[Kind];
}[keyof Pages];

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
export const nameInput = (label: Text, value: string, help: Text): Input<Text> => ({
  kind: 'line',
  name: 'name',
  label,
  required: true,
  maxLength: 200,
  value,
  focus: true,
  help,
});
