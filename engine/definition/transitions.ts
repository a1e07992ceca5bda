import type { Field } from '../fields/index.ts';
import { suggestion, suggestionOrList } from '../yaml/index.ts';
import type { RawField, ReportIssue, Scope } from './definition.ts';

/** Returns the changes that are allowed to a field's value, and reports values that are not listed. */
export function readTransitions(raw: RawField, report: ReportIssue): Pick<Field, 'transitions'> {
  const { transitions, initial, enum: list = [], default: value } = raw;
  if (transitions === undefined) {
    if (initial !== undefined) report('initial', '"initial" needs "transitions"');
    return {};
  }
  if (raw.closed !== true) report('transitions', '"transitions" needs "closed: true"');
  if (raw.read_only === true) report('transitions', 'a read-only field cannot have "transitions"');
  const checkListed = (key: string, names: readonly string[]): void => {
    for (const name of names) {
      if (list.includes(name) || raw.enum === undefined) continue;
      report(key, `"${name}" is not in "enum"${suggestion(name, list)}`);
    }
  };
  const next = new Map(
    Object.entries(transitions).map(([from, to]) => [from, isList(to) ? to : Object.keys(to)]),
  );
  checkListed('transitions', [...next.keys(), ...[...next.values()].flat()]);
  checkListed('initial', initial ?? []);
  const allInitial = [
    ...new Set([...(typeof value === 'string' && value !== '' ? [value] : []), ...(initial ?? [])]),
  ];
  if (allInitial.length === 0)
    report('transitions', 'a new record could not have a value. Add a default or "initial".');
  const scopes = new Map(
    Object.entries(transitions).flatMap(([from, to]) => {
      const limited = isList(to) ? [] : Object.entries(to).filter(([, scope]) => scope !== unlimited);
      return limited.length === 0 ? [] : [[from, new Map(limited)] as const];
    }),
  );
  return { transitions: { initial: allInitial, next, ...(scopes.size > 0 && { scopes }) } };
}

/** Stands for the absence of a scope. No scope can have this name. */
const unlimited = 'all';

const isList = (to: readonly string[] | Readonly<Record<string, string>>): to is readonly string[] =>
  Array.isArray(to);

/** Reports scopes of transitions that the resource does not have. */
export function checkTransitionScopes(
  { transitions }: Field,
  scopes: readonly Scope[],
  report: ReportIssue,
): void {
  const names = scopes.map(({ name }) => name);
  for (const scope of new Set([...(transitions?.scopes?.values() ?? [])].flatMap((to) => [...to.values()])))
    if (!names.includes(scope))
      report('transitions', `unknown scope "${scope}"${suggestionOrList(scope, [...names, unlimited])}`);
}
