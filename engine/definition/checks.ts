import { compileExpression } from '../expressions/index.ts';
import type { Field } from '../fields/index.ts';
import { suggestionOrList, type Target } from '../yaml/index.ts';
import type { RawResource, RecordCheck } from './definition.ts';

/** Returns the conditions that every record must meet, and reports invalid ones at their exact locations. */
export function readChecks(
  { checks = [] }: RawResource,
  fields: ReadonlyMap<string, Field>,
  report: (target: Target, message: string) => void,
): RecordCheck[] {
  return checks.flatMap(({ that, fields: names, message }, index): RecordCheck[] => {
    const path = ['checks', index];
    const condition = compileExpression(
      that,
      { fields, expected: 'boolean', allowsCaller: false, allowsNow: false },
      (offset, text) => report({ path: [...path, 'that'], offset }, text),
    );
    if (condition === undefined) return [];
    const read = condition.fields.flatMap((name) => fields.get(name) ?? []);
    if (read.length === 0) {
      report({ path: [...path, 'that'] }, 'the condition must read a field');
      return [];
    }
    const [grouped] = read.filter(({ group }) => group !== undefined);
    const other = read.find(({ group }) => group !== grouped?.group);
    if (grouped !== undefined && other !== undefined)
      report(
        { path: [...path, 'that'] },
        `"${grouped.name}" belongs to the group "${grouped.group}", and "${other.name}" does not, so the check would reveal the values of "${grouped.name}"`,
      );
    const named = names.flatMap((name, position) => {
      const field = read.find((candidate) => candidate.name === name);
      const issue = fields.get(name)?.readOnly
        ? `"${name}" is read-only, so callers could not correct it. Name a field that they can write.`
        : field === undefined
          ? `"${name}" is not a field of the condition${suggestionOrList(name, condition.fields)}`
          : undefined;
      if (issue !== undefined) report({ path: [...path, 'fields', position] }, issue);
      return field === undefined ? [] : [field];
    });
    return [{ condition, fields: named, message }];
  });
}
