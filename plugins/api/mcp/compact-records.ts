import type { ResourceView } from '../../../engine/compile/index.ts';
import { customName, type Field, refersToMany, refersToUser } from '../../../engine/fields/index.ts';
import type { ChangeValues, RecordValues } from '../../../engine/records/index.ts';
import { columnsOf } from '../../admin-ui/records/index.ts';
import { isAllowed, type ToolCall } from './tool.ts';

/** Maximum number of characters of a text in results with several records, and with one record. */
export const textLengths = { many: 300, one: 2000 } as const;

/** Returns the names of the fields that a list returns unless the call names others: the title and the columns of lists. */
export const defaultFields = ({ titles }: ToolCall, view: ResourceView): readonly string[] => [
  ...new Set([...titles.fields(view), ...columnsOf(view, titles, [])].map(({ name }) => name)),
];

/** Returns field names as the API expects them: the custom field `custom.score` is part of the field `custom`. */
export const apiFields = (names: readonly string[]): string =>
  [...new Set(names.map((name) => (name.startsWith(`${customName}.`) ? customName : name)))].join();

/**
 * Returns the references to expand in records with these fields, so that results contain the names of referenced records that
 * the caller can read.
 * @param names names of the fields; all fields if undefined
 */
export function expandedReferences(
  call: ToolCall,
  view: ResourceView,
  names: readonly string[] | undefined,
): readonly string[] {
  const canRead = (resource: string | undefined): boolean => {
    const target = call.views.find(({ name }) => name === resource);
    return target !== undefined && isAllowed(call, target, 'read');
  };
  return view.definition.expansion
    .filter(({ isList, reference }) => !isList && (names === undefined || names.includes(reference.name)))
    .filter(
      ({ reference, to, alternatives }) =>
        refersToUser(reference) ||
        (alternatives === undefined ? canRead(to) : alternatives.every((one) => canRead(one.to))),
    )
    .map(({ name }) => name);
}

/** Compacts records for results, and collects the names of the fields whose values it has truncated. */
export interface Compactor {
  readonly record: (view: ResourceView, record: RecordValues, names?: readonly string[]) => RecordValues;
  /** Returns what changed, by field: the previous and the new value, except in fields that only the server sets. */
  readonly changes: (
    view: ResourceView,
    before: RecordValues | null,
    after: RecordValues | null,
  ) => RecordValues;
  /** Returns an explanation of truncated values; undefined if all values are complete. */
  readonly note: () => string | undefined;
}

/**
 * Creates a compactor: values are omitted if they are null or an empty text, references have the names of their records, and long
 * texts are truncated.
 * @param length maximum number of characters of a text; unlimited if undefined
 */
export function compactor({ views, titles }: ToolCall, length: number | undefined): Compactor {
  const truncated = new Set<string>();
  const shortened = (name: string, value: unknown): unknown => {
    if (typeof value !== 'string' || length === undefined || value.length <= length) return value;
    truncated.add(name);
    return `${value.slice(0, length).toWellFormed()}…`;
  };
  const isEmpty = (value: unknown): boolean =>
    value === null || value === undefined || value === '' || (Array.isArray(value) && value.length === 0);
  const named = (resource: string | undefined, target: RecordValues): RecordValues => {
    const view = views.find(({ name }) => name === resource);
    return { id: target.id, ...(view !== undefined && { name: titles.of(view, target) }) };
  };
  /** Returns the referenced records with their names, or the value itself if the result does not contain them. */
  const referenceOf = (field: Field, value: unknown, related: unknown): unknown => {
    if (related === null || related === undefined) return value;
    if (refersToMany(field)) {
      const known = new Map((related as readonly RecordValues[]).map((one) => [String(one.id), one]));
      return (value as readonly unknown[]).map((id) => {
        const target = known.get(String(id));
        return target === undefined ? { id } : named(field.to, target);
      });
    }
    const target = related as RecordValues;
    if (refersToUser(field)) return { id: target.id, name: target.name ?? target.email ?? null };
    if (field.alternatives === undefined) return named(field.to, target);
    return { resource: target.resource, ...named(String(target.resource), target) };
  };
  const entries = (values: RecordValues, names?: readonly string[]): [string, unknown][] =>
    Object.entries(values)
      .filter(([name, value]) => !isEmpty(value) && (names === undefined || names.includes(name)))
      .map(([name, value]) => [name, shortened(name, value)]);
  return {
    record: (view, { expanded, ...values }, names) => {
      const related = (expanded ?? {}) as RecordValues;
      const fields = new Map(view.definition.fields.map((field) => [field.name, field]));
      const keys = new Map(view.definition.expansion.map(({ name, reference }) => [reference.name, name]));
      const selected = names && ['id', ...names];
      const own = names?.filter((name) => name.startsWith(`${customName}.`)) ?? [];
      return Object.fromEntries(
        entries(values, selected && own.length > 0 ? [...selected, customName] : selected).flatMap(
          ([name, value]): [string, unknown][] => {
            const field = fields.get(name);
            if (field?.type.custom === true) {
              const custom = entries(
                value as RecordValues,
                own.length === 0 ? undefined : own.map((key) => key.slice(customName.length + 1)),
              );
              return custom.length === 0 ? [] : [[name, Object.fromEntries(custom)]];
            }
            const key = keys.get(name);
            return [
              [
                name,
                field === undefined || key === undefined ? value : referenceOf(field, value, related[key]),
              ],
            ];
          },
        ),
      );
    },
    changes: ({ definition }, before, after) => {
      const isServerField = new Set(
        definition.fields
          .filter(({ set, readOnly }) => set !== undefined && readOnly)
          .map(({ name }) => name),
      );
      return Object.fromEntries(
        Object.keys({ ...before, ...after }).flatMap((name) => {
          if (isServerField.has(name)) return [];
          const [from, to] = [before?.[name] ?? null, after?.[name] ?? null];
          if (String(JSON.stringify(from)) === String(JSON.stringify(to)) || (isEmpty(from) && isEmpty(to)))
            return [];
          const change = {
            ...(!isEmpty(from) && { from: shortened(name, from) }),
            to: isEmpty(to) ? null : shortened(name, to),
          };
          return [[name, change]];
        }),
      );
    },
    note: () =>
      truncated.size === 0
        ? undefined
        : `Values that end with … are truncated. For the complete text, call get with "fields": ${JSON.stringify([...truncated])}.`,
  };
}

/** Returns an entry of a record's history. */
export function historyEntry(
  compact: Compactor,
  view: ResourceView,
  { at, actor, action, changed, before, after }: ChangeValues,
): RecordValues {
  const only = (values: RecordValues | null) =>
    values && Object.fromEntries(changed.map((name) => [name, values[name]]));
  return {
    at,
    by: actor.name ?? actor.kind,
    action,
    ...(action === 'update' && { changes: compact.changes(view, only(before), only(after)) }),
  };
}
