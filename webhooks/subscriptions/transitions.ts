import type { ResourceView } from '../../engine/compile/index.ts';
import type { FieldIssue } from '../../engine/errors.ts';
import { ExactNumber, parseOwnJson } from '../../engine/fields/index.ts';
import { type ChangeStates, loggedFieldNames, type RecordValues } from '../../engine/records/index.ts';

/** A value of a field, which a transition compares. */
type Value = string | number | boolean | null;

/** Values of a field before and after a change. Any value matches if a list is absent. */
interface Transition {
  readonly from?: readonly Value[];
  readonly to?: readonly Value[];
}

/** The transitions that a subscription requires, by field. A change must contain all of them. */
export type SelectedTransitions = Readonly<Record<string, Transition>>;

/** Maximum number of fields with transitions, and of values in each list. */
const [maxFields, maxValues] = [10, 50];

const expected = 'must be an object such as {"status":{"from":"New","to":["Qualified","Lost"]}}';

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber);

const isValue = (value: unknown): value is Value =>
  value === null || ['string', 'number', 'boolean'].includes(typeof value);

/**
 * Validates transitions from a request.
 * @returns the transitions, each with lists of values, or undefined after adding an issue to `issues`
 */
export function readSelectedTransitions(
  input: unknown,
  issues: FieldIssue[],
): SelectedTransitions | undefined {
  const reject = (message: string) => {
    issues.push({ field: 'transitions', message: `transitions ${message}` });
    return undefined;
  };
  if (!isObject(input)) return reject(expected);
  const entries = Object.entries(input);
  if (entries.length > maxFields) return reject(`can contain at most ${maxFields} fields`);
  const transitions: [string, Transition][] = [];
  for (const [name, transition] of entries) {
    if (!isObject(transition) || Object.keys(transition).some((key) => key !== 'from' && key !== 'to'))
      return reject(expected);
    const { from, to } = transition;
    const lists = {
      ...(from !== undefined && { from: [from].flat() }),
      ...(to !== undefined && { to: [to].flat() }),
    };
    for (const list of Object.values(lists)) {
      if (list.length === 0 || list.length > maxValues || !list.every(isValue))
        return reject(
          `can contain 1 to ${maxValues} values per list: strings, booleans, null, and numbers that JavaScript represents exactly`,
        );
    }
    transitions.push([name, lists as Transition]);
  }
  return Object.fromEntries(transitions);
}

/** Checks that the changes of a resource contain the fields of transitions, and adds an issue to `issues` otherwise. */
export function checkTransitions(
  transitions: SelectedTransitions,
  { name: resource, definition }: Pick<ResourceView, 'name' | 'definition'>,
  issues: FieldIssue[],
): void {
  const names = loggedFieldNames(definition);
  const unknown = Object.keys(transitions).find((name) => !names.includes(name));
  if (unknown !== undefined)
    issues.push({
      field: 'transitions',
      message: `transitions: changes to ${resource} do not contain ${unknown}. Available: ${names.join(', ')}`,
    });
}

/** Returns whether an update contains all transitions. Creations and deletions never do. */
export function containsTransitions(
  transitions: SelectedTransitions,
  { action, changed, previous, after }: ChangeStates,
): boolean {
  if (action !== 'update' || previous === null || after === null) return false;
  const changedNames = JSON.parse(changed) as readonly string[];
  const [before, now] = [previous, after].map((json) => parseOwnJson(json) as RecordValues);
  return Object.entries(transitions).every(
    ([name, { from, to }]) =>
      changedNames.includes(name) &&
      (from === undefined || from.some((value) => value === before?.[name])) &&
      (to === undefined || to.some((value) => value === now?.[name])),
  );
}
