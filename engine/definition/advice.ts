import type { AlternativeFor } from '../yaml/index.ts';

/** What other tools call a type, and what it is here. Compared in lower case, without what is in brackets. */
const types: readonly (readonly [words: string, here: string])[] = [
  [
    'varchar char character nvarchar str shorttext singlelinetext',
    'use "string", with "max_length" for a limit',
  ],
  ['longtext mediumtext clob textarea multiline markdown richtext html', 'use "text"'],
  ['email url uri phone tel slug password uuid guid cuid color', 'use "string", with "pattern" for a form'],
  ['int int4 int32 smallint tinyint', 'use "integer"'],
  ['bigint int8 long bigserial serial', 'use "int64"'],
  ['decimal numeric float float4 float8 double real money currency percent', 'use "number", which is exact'],
  ['bool checkbox switch', 'use "boolean"'],
  ['datetime timestamptz time instant', 'use "timestamp"'],
  ['day calendardate dateonly', 'use "date"'],
  ['enum select choice choices picklist dropdown multiselect', 'use "string" with "enum: [ … ]"'],
  [
    'relation relationship foreignkey fk ref belongsto belongs_to many2one manytoone link',
    'use "reference" with "to: <resource>" and "nullable: true"',
  ],
  ['hasmany has_many one2many onetomany', 'put a reference into the other resource, and filter by it'],
  ['manytomany many2many', 'make a resource with two references'],
  ['lookup rollup formula computed virtual', 'use "joined" for the text of a record that a reference is to'],
  ['json jsonb object map array list blob binary file image', 'there is none: give each value a field'],
];

/** What other tools call a key of a field. */
const fieldKeys: readonly (readonly [words: string, here: string])[] = [
  [
    'references foreign_key foreignkey ref relation model target table resource related_to',
    'use "type: reference" with "to: <resource>"',
  ],
  ['length size maxlength max_len limit', 'use "max_length"'],
  ['not_null notnull null allow_null optional', 'use "nullable: true" for a field that may be null'],
  ['mandatory is_required presence', 'use "required: true"'],
  ['values options choices allowed one_of', 'use "enum: [ … ]"'],
  [
    'primary_key primarykey primary pk auto_increment autoincrement',
    '"id" is the key; it comes with "common"',
  ],
  ['index indexed db_index searchable filterable', 'list the field in "filters" or "search" of the resource'],
  ['label title caption comment help help_text doc docs', 'use "description"'],
  ['regex regexp format match', 'use "pattern"'],
  ['initial default_value', 'use "default"'],
  ['hidden private secret pii', 'use "sensitive: true" to keep values out of the ledger'],
  ['on_delete ondelete cascade', 'a reference becomes null when its record is deleted'],
  ['min max minimum maximum min_length precision scale', 'there is no such limit'],
  ['readonly immutable editable', 'use "read_only: true"'],
  ['name id key', 'the key above is the name of the field'],
];

/** What other tools call a key of a resource. */
const resourceKeys: readonly (readonly [words: string, here: string])[] = [
  ['columns attributes properties schema', 'use "fields"'],
  ['order order_by orderby ordering default_sort', 'use "sort"'],
  ['table table_name tablename plural resource', 'use "name", or the name of the file'],
  ['label title comment', 'use "description"'],
  ['indexes indices index', 'indexes follow from "filters", "sort", "search" and "unique"'],
  ['unique_together constraints', 'use "unique: [ a, b ]"'],
  ['permissions roles access policies acl', 'profiles say who may do what'],
  ['timestamps audited', 'use "common: all"'],
  ['relations relationships references', 'give a field "type: reference"'],
];

/** What other tools call an operator of a filter. */
const operatorWords: readonly (readonly [words: string, here: string])[] = [
  ['equals equal is exact == =', 'use eq'],
  ['not neq not_equal != <>', 'use ne'],
  ['>', 'use gt'],
  ['>= min from since after', 'use gte'],
  ['<', 'use lt'],
  ['<= max to until before', 'use lte'],
  ['between range', 'use gte and lte'],
  ['like ilike icontains includes match', 'use contains, or "search" of the resource'],
  ['startswith prefix begins_with', 'use starts_with'],
  ['null isnull exists', 'use is_null'],
  ['any one_of', 'use in'],
];

function here(word: string, table: readonly (readonly [words: string, here: string])[]): string | undefined {
  return table.find(([words]) => words.split(' ').includes(word.toLowerCase()))?.[1];
}

/** What to use for a type that other tools have; undefined for any other word. */
export const typeAdvice = (type: string): string | undefined =>
  here(type.replace(/[([<|?].*$/, '').replace(/[\s-]/g, ''), types);

/** What to use for a word that other tools have, at its place in a file. */
export const alternativeFor: AlternativeFor = (word, path, value) => {
  if (path.length === 0) {
    const isField = typeof value === 'object' && value !== null && 'type' in value;
    return isField ? 'fields belong under "fields", indented by two spaces' : here(word, resourceKeys);
  }
  if (path[0] === 'fields' && path.length === 2) return here(word, fieldKeys);
  return path.includes('operators') ? here(word, operatorWords) : undefined;
};
