import { nullTestedFields } from '../expressions/index.ts';
import { type Field, fieldTypes } from '../fields/index.ts';
import { arrayText, literal, type Placeholder, quote } from '../sql/index.ts';
import { type Action, fieldGroups, type RecordLimit } from './access.ts';
import { hasPreviousVersionSql, loggedFieldNames } from './changes.ts';
import { visibleLoggedCustomSql } from './custom-tables.ts';
import { hidesReferences, visibleIdsSql } from './link-tables.ts';
import { type CallerScope, scopesSql, type VisibleResource } from './rows.ts';

/** A resource as the caller sees it, with the resources to which it refers. */
interface ChangedResource extends VisibleResource {
  readonly resources: ReadonlyMap<string, VisibleResource>;
}

/** The resources whose changes a statement selects, as the caller sees them. */
export interface ChangeView {
  readonly resources: readonly ChangedResource[];
  /** The action whose scopes limit the changes. */
  readonly action: Action;
}

/** Returns whether the caller sees some of the changes differently from a caller without limits. */
export const limitsChanges = ({ resources, action }: ChangeView): boolean =>
  resources.some((resource) => limitsOf(resource, action).length > 0 || hidesValues(resource));

const limitsOf = ({ rows }: VisibleResource, action: Action): readonly RecordLimit[] => rows?.[action] ?? [];

/** Returns whether the caller does not see all of the resource's fields. */
const hidesFields = ({ definition, stored }: Pick<VisibleResource, 'definition' | 'stored'>): boolean =>
  definition.fields.length < stored.fields.length;

/** Returns whether a field contains the values of custom fields, and the caller cannot read all field groups. */
export const hidesCustomValues = (
  { type }: Pick<Field, 'type'>,
  { definition, stored }: Pick<VisibleResource, 'definition' | 'stored'>,
): boolean => type.custom === true && fieldGroups(definition).length < fieldGroups(stored).length;

/** Returns the fields in which the caller sees only some of the references or of the custom fields. */
const partialFields = (resource: ChangedResource): readonly Field[] =>
  resource.definition.fields.filter(
    (field) => hidesReferences(field, resource.resources) || hidesCustomValues(field, resource),
  );

const hidesValues = (resource: ChangedResource): boolean =>
  hidesFields(resource) || partialFields(resource).length > 0;

/** Columns of the change log that do not depend on the caller. */
const unchangedColumns = [
  'organization_id',
  'transaction',
  'id',
  'at',
  'actor_kind',
  'actor_id',
  'actor_name',
  'object',
  'object_id',
  'request_id',
  'version',
];

/**
 * Returns the statement that selects change log rows as the caller sees them. The scopes are evaluated on the record
 * before and after each change, not on its current state. A change by which a record enters the scopes becomes a
 * creation, and a change by which it leaves them becomes a deletion. Changes that the caller cannot see are omitted.
 * @param rows selects rows of the change log
 * @param extraColumns names of additional columns in the rows
 */
export function visibleChanges(
  rows: string,
  view: ChangeView,
  placeholder: Placeholder<CallerScope>,
  extraColumns: readonly string[] = [],
): string {
  const { resources, action } = view;
  const limited = resources.filter((resource) => limitsOf(resource, action).length > 0);
  const isVisible = (image: string): string =>
    byResource(
      resources.map((resource) => [
        resource,
        limited.includes(resource) ? imageLimitSql(resource, action, placeholder, image) : 'true',
      ]),
      'false',
    );
  const hiding = resources.filter(hidesValues);
  const images = visibleImages(resources, placeholder);
  const conditions = [
    '(_v."after" or _v."before")',
    ...(hiding.length === 0 ? [] : [`not ${isEmptySql(hiding)}`]),
  ];
  const columns = [...unchangedColumns, ...extraColumns].map((name) => `l.${quote(name)}`);
  return [
    `select ${columns.join(', ')},`,
    `case when l."action" <> 'update' then l."action" when not _v."before" then 'create' when not _v."after" then 'delete' else 'update' end as "action",`,
    `case when _v."after" then ${images.after} end as "record", case when _v."before" then ${images.before} end as "before"`,
    `from (${rows}) l left join "crm_ledger" p on ${hasPreviousVersionSql('p', 'l')}`,
    // OFFSET 0 prevents the planner from repeating the expressions wherever their results are used.
    ...images.join,
    `cross join lateral (select ${images.after}::json as "after", ${images.before}::json as "before" offset 0) _i`,
    `cross join lateral (select ${isVisible('_i."after"')} as "after", ${isVisible('_i."before"')} as "before" offset 0) _v`,
    `where ${conditions.join(' and ')}`,
  ].join(' ');
}

/** SQL expressions for the record before and after a change as the caller sees it, and the join that they need. */
function visibleImages(resources: readonly ChangedResource[], placeholder: Placeholder<CallerScope>) {
  const [after, before] = ['l."record"', 'coalesce(l."before", p."record")'];
  const partial = resources.filter((resource) => partialFields(resource).length > 0);
  if (partial.length === 0) return { after, before, join: [] };
  const visible = (image: string) =>
    byResource(
      partial.map((resource) => [resource, visibleImageSql(resource, placeholder, image)]),
      image,
    );
  return {
    after: '_t."after"',
    before: '_t."before"',
    join: [
      `cross join lateral (select ${visible(after)} as "after", ${visible(before)} as "before" offset 0) _t`,
    ],
  };
}

/**
 * Returns an SQL expression for a logged record without the references and custom fields that the caller cannot see. Other
 * values keep their text.
 * @param image SQL expression for the record as JSON text
 */
function visibleImageSql(
  resource: ChangedResource,
  placeholder: Placeholder<CallerScope>,
  image: string,
): string {
  const ids = `array(select _a::bigint from json_array_elements_text(case json_typeof(_f.value) when 'array' then _f.value else '[]' end) _a where _a ~ '^[0-9]{1,18}$')`;
  const { name: resourceName } = resource.definition;
  const values = partialFields(resource).flatMap((field) => {
    if (field.type.custom === true)
      return [
        `when ${literal(field.name)} then ${visibleLoggedCustomSql(resourceName, fieldGroups(resource.definition), '_f.value')}`,
      ];
    const visible = visibleIdsSql(field, resource.resources, placeholder, {
      ids,
      organization: 'l."organization_id"',
    });
    // The record can also contain the references under the field's former name.
    const aliases = resource.definition.fields.filter(({ aliasOf }) => aliasOf?.name === field.name);
    return [field, ...aliases].map(
      ({ name }) => `when ${literal(name)} then array_to_json(array(${visible}))::text`,
    );
  });
  return `(select '{' || string_agg(to_json(_f.key)::text || ':' || case _f.key ${values.join(' ')} else _f.value::text end, ',' order by _f.place) || '}' from json_each(${image}::json) with ordinality _f(key, value, place))`;
}

/** Returns an SQL expression whose value depends on the resource of row `l`. */
const byResource = (values: readonly (readonly [VisibleResource, string])[], other: string): string =>
  `case l."object" ${values.map(([{ definition }, value]) => `when ${literal(definition.name)} then ${value}`).join(' ')} else ${other} end`;

/**
 * Returns the condition that a logged record meets the caller's limits. It is true or false, never null.
 * @param image SQL expression for the record as JSON
 */
function imageLimitSql(
  resource: VisibleResource,
  action: Action,
  placeholder: Placeholder<CallerScope>,
  image: string,
): string {
  const { fields } = resource.stored;
  const fieldOf = (name: string): Field => {
    const field = fields.find((candidate) => candidate.name === name);
    if (field === undefined) throw new Error(`a scope reads the unknown field ${name}`);
    return field;
  };
  const limits = limitsOf(resource, action).map((limit) =>
    limit.length === 0
      ? 'false'
      : `(${limit
          .map((scope) => {
            const nullTested = nullTestedFields(scope.condition);
            const values = scope.condition.fields.flatMap((name) => {
              const { isConvertible, isLogged } = imageValue(fieldOf(name), image);
              return nullTested.has(name) ? [isLogged, isConvertible] : [isConvertible];
            });
            const condition = scopesSql(
              [scope],
              placeholder,
              (name) => imageValue(fieldOf(name), image).value,
            );
            return `(${[...values, condition].join(' and ')})`;
          })
          .join(' or ')})`,
  );
  return `coalesce(${[`${image} is not null`, ...limits].join(' and ')}, false)`;
}

/** SQL expressions for a field of a logged record. */
interface ImageValue {
  /** The value with the field's type, or null if it is not convertible. */
  readonly value: string;
  /** Condition that the value is null or has the field's type, which can have changed since it was logged. */
  readonly isConvertible: string;
  /** Condition that the record contains the field, which can have been added later, renamed or erased. */
  readonly isLogged: string;
}

/** Returns SQL expressions for a field of a logged record. @throws Error if the change log does not contain the field */
export function imageValue(field: Field, image: string): ImageValue {
  const { name, renamedFrom, type } = field;
  const keys = [name, ...(renamedFrom === undefined ? [] : [renamedFrom])].map((key) => literal(key));
  const isLogged = `coalesce(${keys.map((key) => `${image} -> ${key}`).join(', ')}) is not null`;
  const texts = keys.map((key) => `${image} ->> ${key}`);
  const text = texts.length === 1 ? `(${texts[0]})` : `coalesce(${texts.join(', ')})`;
  // The conversion of references and users would also check that the record or member exists.
  const isLink = type.refers === true || type.users === true;
  const conversion = isLink ? fieldTypes.int64.fromText : type.fromText;
  if (conversion === undefined) throw new Error(`the change log does not contain ${name}`);
  const fits = conversion.fits(text, { referredTable: '', organization: '', isMember: () => 'true' });
  const [converted = ''] = conversion.columns(text);
  if (fits === 'true') return { value: converted, isConvertible: 'true', isLogged };
  return {
    value: `(case when ${fits} then ${converted} end)`,
    isConvertible: `(${text} is null or ${fits})`,
    isLogged,
  };
}

/**
 * Returns the condition that a change affects only hidden fields, or nothing at all, so that a caller cannot distinguish
 * the two. Fields that every write changes do not count.
 */
function isEmptySql(resources: readonly VisibleResource[]): string {
  const names = byResource(
    resources.map((resource) => [resource, `${literal(arrayText(significantNames(resource)))}::text[]`]),
    'null',
  );
  const isChanged = `exists (select from json_each(_i."after") _n join json_each(_i."before") _o on _o.key = _n.key where _n.key = any(${names}) and _o.value::text is distinct from _n.value::text)`;
  const objects = resources.map(({ definition }) => literal(definition.name)).join(', ');
  return `(l."object" in (${objects}) and l."action" = 'update' and _v."before" and _v."after" and _i."before" is not null and not ${isChanged})`;
}

const significantNames = ({ definition }: VisibleResource): string[] => {
  const byEveryWrite = definition.fields
    .filter(({ set }) => set === 'updated' || set === 'editor')
    .map(({ name }) => name);
  return loggedFieldNames(definition).filter((name) => !byEveryWrite.includes(name));
};
