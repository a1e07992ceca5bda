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
  ['slug password uuid guid cuid color', 'Use "string", with "pattern" for the format.'],
  ['email', 'Use "string" with "format: email".'],
  ['url uri', 'Use "string" with "format: url".'],
  ['phone tel', 'Use "string" with "format: phone".'],
  ['int int4 int32 smallint tinyint', 'Use "integer".'],
  ['bigint int8 long bigserial serial', 'Use "int64".'],
  ['decimal numeric float float4 float8 double real percent', 'Use "number", which is exact.'],
  ['currency amount price', 'Use "money" with "currency: EUR", or "currency: any".'],
  ['bool checkbox switch', 'Use "boolean".'],
  ['datetime timestamptz instant', 'Use "timestamp".'],
  ['time timeofday', 'Use "timestamp" for a point in time, or "string" with "pattern" for a time of day.'],
  ['day calendardate dateonly', 'Use "date".'],
  ['enum select choice choices picklist dropdown', 'Use "string" with "enum: [ … ]".'],
  ['multiselect tags', 'Use "list", with "enum: [ … ]" for known values.'],
  [
    'relation relationship foreignkey fk ref belongsto belongs_to many2one manytoone link',
    'Use "reference" with "to: <resource>" and "nullable: true".',
  ],
  ['person people member owner assignee collaborator', 'Use "user" for a member of the organization.'],
  ['hasmany has_many one2many onetomany', 'Declare a reference in the other resource, and filter by it.'],
  ['manytomany many2many referencelist', 'Use "references" with "to: <resource>".'],
  ['lookup', 'Use "joined" to show text fields from a referenced record.'],
  [
    'formula computed calculated virtual',
    'Use the type of the values, for example "number", with "computed: price / area".',
  ],
  [
    'rollup rollupsummary summary aggregate count sum',
    'Use the type of the values, for example "number", with "rollup: { sum: amount, of: quote_lines, by: quote_id }".',
  ],
  ['array set', 'Use "list", with "of" for the type of its values.'],
  ['jsonb object map document', 'Use "json".'],
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
  ['title caption display_name verbose_name', 'Use "label".'],
  ['help_text hint tooltip placeholder', 'Use "help".'],
  ['comment doc docs', 'Use "description".'],
  ['regex regexp match', 'Use "pattern".'],
  ['initial default_value', 'Use "default".'],
  [
    'autonumber auto_number number_format numbering counter',
    'Use "sequence" with a format, for example T-{year}-{0000}.',
  ],
  ['default_expression default_sql auto_now_add', 'Use "default_from" with an expression, for example now.'],
  [
    'formula expression calculation calculated compute generated generated_as generated_always_as virtual',
    'Use "computed" with an expression, for example price / area.',
  ],
  [
    'aggregate aggregation summary summarize sum count avg',
    'Use "rollup", for example { sum: amount, of: quote_lines, by: quote_id }.',
  ],
  ['hidden private secret pii', 'Use "sensitive: true" to keep values out of the change log.'],
  [
    'ondelete delete_rule cascade restrict',
    'Use "on_delete: clear", "on_delete: restrict" or "on_delete: cascade".',
  ],
  ['minimum gte ge', 'Use "min".'],
  ['maximum lte le', 'Use "max".'],
  ['minlength min_len', 'Use "min_length".'],
  ['items item item_type element element_type', 'Use "of" for the type of the values of a list.'],
  ['error error_message errormessage validation_message', 'Use "message".'],
  ['precision scale', 'This limit is not supported.'],
  ['readonly immutable editable', 'Use "read_only: true".'],
  ['name id key', "The key above is the field's name."],
];

/** Keys that other tools use for resources. */
const resourceKeys: AdviceTable = [
  ['columns attributes properties schema', 'Use "fields".'],
  ['order order_by orderby ordering default_sort', 'Use "sort".'],
  ['table table_name tablename plural resource', 'Use "name", or rename the file.'],
  ['title display_name plural_name', 'Use "label".'],
  ['comment doc docs', 'Use "description".'],
  [
    'hidden disabled',
    'Use "retired: true", or "screen: { hidden: true }" to hide it only from the navigation.',
  ],
  ['icon section menu board ui view views', 'Use "screen".'],
  ['indexes indices index', 'Indexes are created for "filters", "sort", "search" and "unique".'],
  ['unique_together', 'Use "unique: [ a, b ]".'],
  ['constraints validations validate rules check', 'Use "checks".'],
  ['permissions roles access policies acl', 'Permissions belong to profiles, not to resources.'],
  ['timestamps audited', 'Use "common: all".'],
  ['lock freeze frozen immutable readonly read_only final', 'Use "locked".'],
  [
    'soft_delete softdelete soft_deletes paranoid recycle_bin',
    'Use "trash" with a period, for example "trash: 30 days".',
  ],
  ['relations relationships references', 'Declare a field with "type: reference".'],
];

/** Keys that other tools use for rollups. */
const rollupKeys: AdviceTable = [
  [
    'function fn operation op type aggregate field column value',
    'Use the name of the function with the field, for example "sum: amount".',
  ],
  ['average mean', 'Use "avg".'],
  ['minimum smallest first earliest', 'Use "min".'],
  ['maximum largest last latest', 'Use "max".'],
  ['from table resource relation children to', 'Use "of" for the resource of the records.'],
  [
    'reference foreign_key foreignkey fk through on via link',
    'Use "by" for their reference to this resource.',
  ],
  ['filter filters condition if when', 'Use "where" with a condition, for example status == "open".'],
  ['store persisted persist materialized cached indexed', 'Use "stored: true".'],
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
  if (key === 'default' && value === null) return 'Use "nullable: true" without a default for null.';
  if (key === 'sequence' && typeof value === 'object' && value !== null)
    return 'Write only the format: sequences have no gaps.';
  return undefined;
}

/** Returns advice on a word from another tool, depending on its location in a file. */
export const alternativeFor: AlternativeFor = (word, path, value) => {
  if (path.length === 0) {
    const isField = typeof value === 'object' && value !== null && 'type' in value;
    return isField ? 'Fields belong under "fields", indented by two spaces.' : adviceFor(word, resourceKeys);
  }
  if (path[0] === 'fields' && path.length === 2) return adviceFor(word, fieldKeys);
  if (path[0] === 'fields' && path[2] === 'rollup') return adviceFor(word, rollupKeys);
  if (path[0] === 'fields' && path.length === 3) return valueAdvice(path[2], value);
  if (path[0] === 'sort' && path.length === 1) return adviceFor(word, sortKeys);
  if (path.includes('operators')) return adviceFor(word, operatorWords);
  if (path[0] === 'filters' && path.length === 2 && Array.isArray(value)) {
    return `Write { field: ${word}, operators: [ ${value.join(', ')} ] }.`;
  }
  return undefined;
};
