import type { AlternativeFor } from '../yaml/index.ts';

/** Words used by other tools, separated by spaces, and a sentence that names the equivalent. */
type AdviceTable = readonly (readonly [words: string, advice: string])[];

/** Types used by other tools. They are compared in lowercase, ignoring any text in brackets. */
const types: AdviceTable = [
  [
    'varchar char character nvarchar str shorttext singlelinetext',
    'Use "string", with "max_length" for a limit.',
  ],
  ['longtext mediumtext clob textarea multiline markdown richtext html', 'Use "text".'],
  [
    'email url uri phone tel slug password uuid guid cuid color',
    'Use "string", with "pattern" for the format.',
  ],
  ['int int4 int32 smallint tinyint', 'Use "integer".'],
  ['bigint int8 long bigserial serial', 'Use "int64".'],
  ['decimal numeric float float4 float8 double real money currency percent', 'Use "number", which is exact.'],
  ['bool checkbox switch', 'Use "boolean".'],
  ['datetime timestamptz instant', 'Use "timestamp".'],
  ['time timeofday', 'Use "timestamp" for a point in time, or "string" with "pattern" for a time of day.'],
  ['day calendardate dateonly', 'Use "date".'],
  ['enum select choice choices picklist dropdown multiselect', 'Use "string" with "enum: [ … ]".'],
  [
    'relation relationship foreignkey fk ref belongsto belongs_to many2one manytoone link',
    'Use "reference" with "to: <resource>" and "nullable: true".',
  ],
  ['hasmany has_many one2many onetomany', 'Declare a reference in the other resource, and filter by it.'],
  ['manytomany many2many', 'Declare a resource with two references.'],
  ['lookup rollup', 'Use "joined" to show text fields from a referenced record.'],
  [
    'formula computed virtual',
    'Computed fields are not supported. Use "joined" to show text fields from a referenced record.',
  ],
  ['array list', 'Lists are not supported. Declare another resource with a reference to this one.'],
  ['json jsonb object map', 'Nested values are not supported. Declare a field for each value.'],
  ['blob binary file image', 'Files are not supported. Store the file elsewhere and its URL in a "string".'],
];

/** Keys that other tools use for fields. */
const fieldKeys: AdviceTable = [
  [
    'references foreign_key foreignkey ref relation model target table resource related_to',
    'Use "type: reference" with "to: <resource>".',
  ],
  ['length size maxlength max_len limit', 'Use "max_length".'],
  ['not_null notnull null allow_null optional', 'Use "nullable: true" for a field that can be null.'],
  ['mandatory is_required presence', 'Use "required: true".'],
  ['values options choices allowed one_of', 'Use "enum: [ … ]".'],
  [
    'primary_key primarykey primary pk auto_increment autoincrement',
    'The primary key is "id", which comes with "common: all".',
  ],
  ['index indexed db_index searchable filterable', 'Add the field to "filters" or "search".'],
  ['label title caption comment help help_text doc docs', 'Use "description".'],
  ['regex regexp format match', 'Use "pattern".'],
  ['initial default_value', 'Use "default".'],
  ['hidden private secret pii', 'Use "sensitive: true" to keep values out of the change log.'],
  ['on_delete ondelete cascade', 'A reference always becomes null when its record is deleted.'],
  ['min max minimum maximum min_length precision scale', 'This limit is not supported.'],
  ['readonly immutable editable', 'Use "read_only: true".'],
  ['name id key', "The key above is the field's name."],
];

/** Keys that other tools use for resources. */
const resourceKeys: AdviceTable = [
  ['columns attributes properties schema', 'Use "fields".'],
  ['order order_by orderby ordering default_sort', 'Use "sort".'],
  ['table table_name tablename plural resource', 'Use "name", or rename the file.'],
  ['label title comment', 'Use "description".'],
  ['indexes indices index', 'Indexes are created for "filters", "sort", "search" and "unique".'],
  ['unique_together constraints', 'Use "unique: [ a, b ]".'],
  ['permissions roles access policies acl', 'Permissions belong to profiles, not to resources.'],
  ['timestamps audited', 'Use "common: all".'],
  ['relations relationships references', 'Declare a field with "type: reference".'],
];

/** Keys that other tools use for "sort". */
const sortKeys: AdviceTable = [
  ['dir order', 'Use "direction".'],
  ['field key column', 'Use "by".'],
];

/** Filter operators used by other tools. */
const operatorWords: AdviceTable = [
  ['equals equal is exact == =', 'Use "eq".'],
  ['not neq not_equal != <>', 'Use "ne".'],
  ['>', 'Use "gt".'],
  ['>= min from since after', 'Use "gte".'],
  ['<', 'Use "lt".'],
  ['<= max to until before', 'Use "lte".'],
  ['between range', 'Use "gte" and "lte".'],
  ['like ilike icontains includes match', 'Use "contains", or declare "search".'],
  ['startswith prefix begins_with', 'Use "starts_with".'],
  ['null isnull exists', 'Use "is_null".'],
  ['any one_of', 'Use "in".'],
];

function adviceFor(word: string, table: AdviceTable): string | undefined {
  return table.find(([words]) => words.split(' ').includes(word.toLowerCase()))?.[1];
}

/** Returns the equivalent of another tool's type, or undefined for other words. */
export const typeAdvice = (type: string): string | undefined =>
  adviceFor(type.replace(/[([<|?].*$/, '').replace(/[\s-]/g, ''), types);

/** Returns advice on the value of a field's key. */
function valueAdvice(key: string | number | undefined, value: unknown): string | undefined {
  if (key === 'to' && Array.isArray(value)) return 'Declare a reference field for each resource.';
  if (key === 'default' && value === null) return 'Use "nullable: true" without a default for null.';
  return undefined;
}

/** Returns advice on a word from another tool, depending on its location in a file. */
export const alternativeFor: AlternativeFor = (word, path, value) => {
  if (path.length === 0) {
    const isField = typeof value === 'object' && value !== null && 'type' in value;
    return isField ? 'Fields belong under "fields", indented by two spaces.' : adviceFor(word, resourceKeys);
  }
  if (path[0] === 'fields' && path.length === 2) return adviceFor(word, fieldKeys);
  if (path[0] === 'fields' && path.length === 3) return valueAdvice(path[2], value);
  if (path[0] === 'sort' && path.length === 1) return adviceFor(word, sortKeys);
  if (path.includes('operators')) return adviceFor(word, operatorWords);
  if (path[0] === 'filters' && path.length === 2 && Array.isArray(value)) {
    return `Write { field: ${word}, operators: [ ${value.join(', ')} ] }.`;
  }
  return undefined;
};
