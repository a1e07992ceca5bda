import type { Language } from './catalogue.ts';
import { shellTexts } from './texts/index.ts';
import type { HiddenField, Input, Link, ListView, QuickFilters } from './views.ts';

/** A field by which a list can be filtered. */
export interface FilterField {
  /** The value of the parameter `by` that opens the form for this field. */
  readonly name: string;
  readonly label: string;
  /** The filter's parameters, with labels that follow the field's label. A name can include a value: `name=value`. */
  readonly operators: readonly { readonly value: string; readonly label: string }[];
  /** The control for the value. Its name and label are added. Absent if all operators include a value. */
  readonly input?: () => Promise<Omit<Input, 'name' | 'label'>>;
}

/** The part of a request that a filter menu needs. */
interface FilterRequest {
  /** The selected field or operator. Undefined if the menu is closed. */
  readonly by: string | undefined;
  readonly keep: readonly HiddenField[];
  /** Returns the URL that opens the form for a field, or the list of fields if the name is empty. */
  readonly link: (name: string) => string;
  /** The form that filters by several fields. */
  readonly quick?: QuickFilters | undefined;
  readonly language: Language;
  /** Why the entered value was rejected, and the value. */
  readonly rejected?: { readonly problem: string; readonly value: string } | undefined;
}

/** Returns a list's filter menu: the fields or, if a field is selected, the form that adds a filter for it. */
export async function filterMenu(
  fields: readonly FilterField[],
  { by, keep, link, quick, language, rejected }: FilterRequest,
): Promise<NonNullable<ListView['filter']>> {
  const links = fields.map(({ name, label }): Link => ({ label, href: link(name) }));
  const selected = fields.find(
    ({ name, operators }) => by === name || operators.some(({ value }) => value === by),
  );
  if (by === undefined || selected === undefined) return { isOpen: by !== undefined, fields: links, quick };
  const input = await selected.input?.();
  return {
    isOpen: true,
    fields: links,
    form: {
      title: selected.label,
      keep,
      back: link(''),
      operators: selected.operators.map((operator) => ({ ...operator, selected: operator.value === by })),
      ...(input !== undefined && {
        input: {
          ...input,
          name: 'value',
          label: shellTexts(language)('value'),
          focus: true,
          ...(rejected !== undefined && { value: rejected.value, error: rejected.problem }),
          hasNotes: rejected !== undefined || input.help !== undefined,
        },
      }),
    },
  };
}
