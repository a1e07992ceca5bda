import { type Field, refersToUser, typeLabel } from '../fields/index.ts';
import type { Declarations } from '../query/index.ts';
import { suggestion, withArticle } from '../yaml/index.ts';
import type { RawResource, Screen } from './definition.ts';

/** The parts of a definition on which its pages depend. */
interface Context {
  /** The resource's fields, without former names. */
  readonly fields: readonly Field[];
  readonly filters: Declarations['filters'];
  readonly report: (path: readonly (string | number)[], message: string) => void;
}

/** Returns how the admin UI shows a resource, and reports fields that its pages cannot show. */
export function readScreen({ screen = {} }: RawResource, { fields, filters, report }: Context): Screen {
  const { hidden, section, icon, title = [], columns = [], board } = screen;
  const fieldAt = (path: readonly (string | number)[], name: string): Field | undefined => {
    const field = fields.find((candidate) => candidate.name === name);
    const names = fields.map((candidate) => candidate.name);
    if (field === undefined) report(['screen', ...path], `unknown field "${name}"${suggestion(name, names)}`);
    return field;
  };
  const fieldsAt = (key: 'title' | 'columns', names: readonly string[]): readonly Field[] =>
    names.flatMap((name, index) => fieldAt([key, index], name) ?? []);
  const titleFields = fieldsAt('title', title);
  for (const field of titleFields) {
    if (field.type.refers !== true && !refersToUser(field)) continue;
    const label = refersToUser(field) ? 'user' : typeLabel(field);
    report(
      ['screen', 'title', title.indexOf(field.name)],
      `${withArticle(label)} field cannot be part of a title`,
    );
  }
  const boardField = board === undefined ? undefined : fieldAt(['board'], board);
  if (boardField !== undefined) {
    const isFiltered = filters.some(
      ({ field, operators }) => field.name === boardField.name && operators.includes('eq'),
    );
    if (boardField.type.element !== undefined)
      report(
        ['screen', 'board'],
        `"${board}" is a list, but a record can only be in one column of the board. Choose a string field with "enum".`,
      );
    else if (boardField.values?.isSuggestion !== false)
      report(['screen', 'board'], `"${board}" needs "enum", because each value is a column of the board`);
    else if (!isFiltered)
      report(['screen', 'board'], `the board needs "${board}" in "filters", with the operator "eq"`);
  }
  return {
    ...(hidden === true && { isHidden: true as const }),
    ...(section === undefined ? {} : { section }),
    ...(icon === undefined ? {} : { icon }),
    title: titleFields,
    columns: fieldsAt('columns', columns),
    ...(boardField === undefined ? {} : { board: boardField }),
  };
}
