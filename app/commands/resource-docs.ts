import type { Resource } from '../../engine/compile/index.ts';
import { type ResourceDefinition, resourceLabel } from '../../engine/definition/index.ts';
import { capitalize } from '../../engine/errors.ts';
import { type Field, fieldLabel, linksOf, transitionScope } from '../../engine/fields/index.ts';
import { type ApiField, type ApiResource, apiOf } from '../../engine/schema/index.ts';
import { type LimitedField, limitedFields, transitionSentences } from '../../plugins/api/explorer/index.ts';

/**
 * Returns a description of resources as Markdown: their fields with their rules, what applies to their records, and the
 * transitions of fields as Mermaid diagrams.
 */
export function resourceDocs(resources: readonly Resource[]): string {
  const api = apiOf(resources.map(({ definition }) => definition));
  return ['# Resources', ...resources.flatMap((resource) => sectionOf(resource, api[resource.name]))].join(
    '\n\n',
  );
}

/** Returns the paragraphs about a resource. */
function sectionOf({ name, definition }: Resource, api: ApiResource | undefined): readonly string[] {
  const { fields, description } = definition;
  const rows = fields
    .filter(({ aliasOf }) => aliasOf === undefined)
    .map((field) => rowOf(field, api?.fields[field.name]));
  const facts = factsOf(definition, api);
  return [
    `## ${escaped(resourceLabel(definition))}`,
    ...(description === '' ? [] : [escaped(description)]),
    `Path: \`/api/v1/${name}\``,
    ['| Field | Label | Type | Description |', '| --- | --- | --- | --- |', ...rows].join('\n'),
    ...(facts.length === 0 ? [] : [facts.map((fact) => `- ${fact}`).join('\n')]),
    ...limitedFields(fields).flatMap((field) => [
      `### Transitions of \`${field.name}\``,
      diagramOf(field),
      transitionSentences(field)
        .map((sentence) => `- ${escaped(sentence)}`)
        .join('\n'),
    ]),
  ];
}

/** Returns what applies to all records of a resource, each as a line. */
function factsOf(
  { trash, fields, sort }: ResourceDefinition,
  {
    filters = {},
    unique = [],
    search = [],
    scopes = {},
    checks = [],
    locked,
    children = {},
  }: Partial<ApiResource> = {},
): readonly string[] {
  const names = (items: readonly string[]) => items.map(code).join(', ');
  const filterTexts = Object.entries(filters).map(
    ([field, operators]) => `${code(field)} (${operators.join(', ')})`,
  );
  return [
    `**Default order**: ${code(sort.field.name)}, ${sort.direction === 'asc' ? 'ascending' : 'descending'}`,
    ...(filterTexts.length === 0 ? [] : [`**Filters**: ${filterTexts.join(', ')}`]),
    ...(search.length === 0 ? [] : [`**Search**: ${names(search)}`]),
    ...(unique.length === 0
      ? []
      : [`**Unique**: ${unique.map((together) => together.map(code).join(' with ')).join('; ')}`]),
    ...(checks.length === 0 ? [] : [`**Checks**: ${names(checks)}`]),
    ...(locked === undefined ? [] : [`**Locked**: records cannot be changed if ${code(locked)}`]),
    ...(Object.keys(scopes).length === 0
      ? []
      : [
          `**Scopes**: ${Object.entries(scopes)
            .map(([scope, condition]) => `${code(scope)} (${code(condition)})`)
            .join(', ')}`,
        ]),
    ...(Object.keys(children).length === 0
      ? []
      : [
          `**Children**: ${Object.entries(children)
            .map(
              ([list, { of, by, writable }]) =>
                `${code(list)} (${code(of)} by ${code(by)}${writable === true ? ', writable' : ''})`,
            )
            .join(', ')}`,
        ]),
    ...(trash === undefined ? [] : [`**Trash**: deleted records can be restored for ${trash.days} days`]),
    ...(fields.some(({ type }) => type.custom === true)
      ? ['**Custom fields**: administrators can add fields for their organization']
      : []),
  ];
}

/** Returns the rules of a field, each as a sentence. */
function ruleTexts(
  {
    group,
    default_from,
    computed,
    rollup,
    on_delete,
    min,
    max,
    min_length,
    max_length,
    max_items,
    pattern,
    format,
  }: ApiField,
  { comparison, unique }: Field,
): readonly string[] {
  const bounds = [
    ...(min === undefined ? [] : [`at least ${min}`]),
    ...(max === undefined ? [] : [`at most ${max}`]),
    ...(min_length === undefined ? [] : [`at least ${min_length} characters`]),
    ...(max_length === undefined ? [] : [`at most ${max_length} characters`]),
    ...(max_items === undefined ? [] : [`at most ${max_items} values`]),
    ...(format === undefined ? [] : [`format ${format}`]),
    ...(pattern === undefined ? [] : [`pattern ${code(pattern)}`]),
  ].join(', ');
  return [
    ...(group === undefined ? [] : [`Group: ${code(group)}.`]),
    ...(bounds === '' ? [] : [`${capitalize(bounds)}.`]),
    ...(unique ? [`Unique${comparison === undefined ? '' : ` (${comparison})`}.`] : []),
    ...(default_from === undefined ? [] : [`Default: ${code(default_from)}.`]),
    ...(computed === undefined ? [] : [`Computed: ${code(computed)}.`]),
    ...(rollup === undefined ? [] : [`Rollup: ${code(rollup)}.`]),
    ...(on_delete === undefined ? [] : [`On delete: ${on_delete}.`]),
  ];
}

/** Returns a field's row in the table of fields. */
function rowOf(field: Field, api: ApiField | undefined): string {
  const { name, description, values, sequence } = field;
  const sentences = [
    escaped(description),
    values === undefined
      ? ''
      : `${values.isSuggestion ? 'Suggested' : 'Values'}: ${values.list.map(code).join(', ')}.`,
    sequence === undefined ? '' : `Numbered as ${code(sequence.format)}.`,
    ...(api === undefined ? [] : ruleTexts(api, field)),
  ];
  const text = sentences.filter((sentence) => sentence !== '').join(' ');
  return `| \`${name}\` | ${escaped(fieldLabel(field))} | ${typeText(field)} | ${text} |`;
}

/** Returns a field's type with the properties that determine which values callers can send. */
function typeText(field: Field): string {
  const { typeName, required, nullable, readOnly, of, currency } = field;
  const targets = linksOf(field).flatMap(({ to }) => to ?? []);
  return [
    `${typeName}${of === undefined ? '' : ` of ${of}`}${targets.length === 0 ? '' : ` to ${targets.join(' or ')}`}`,
    ...(currency === undefined ? [] : [currency === 'any' ? 'any currency' : currency]),
    ...(required ? ['required'] : []),
    ...(nullable && !readOnly ? ['nullable'] : []),
    ...(readOnly ? ['read-only'] : []),
  ].join(', ');
}

/** Returns a state diagram in Mermaid. */
function diagramOf({ values, transitions }: LimitedField): string {
  const stateOf = (value: string) => `s${values.indexOf(value) + 1}`;
  const lines = [
    'stateDiagram-v2',
    ...values.map((value) => `state "${labelText(value)}" as ${stateOf(value)}`),
    ...transitions.initial.map((value) => `[*] --> ${stateOf(value)}`),
    ...values.flatMap((from) => {
      const next = transitions.next.get(from) ?? [];
      return next.length === 0
        ? [`${stateOf(from)} --> [*]`]
        : next.map((to) => {
            const scope = transitionScope(transitions, from, to);
            return `${stateOf(from)} --> ${stateOf(to)}${scope === undefined ? '' : ` : ${scope}`}`;
          });
    }),
  ];
  return ['```mermaid', ...lines, '```'].join('\n');
}

/** Returns a label in which Mermaid interprets no character. */
const labelText = (text: string): string =>
  text.replace(/[^\p{L}\p{N} ._-]/gu, (character) => `#${character.codePointAt(0)};`);

/** Returns text in which Markdown and its tables interpret no character. */
const escaped = (text: string): string => text.replace(/\s+/g, ' ').replace(/[\\`*_[\]<>!#|~]/g, '\\$&');

/** Returns text as code in a cell of a table. */
const code = (text: string): string =>
  `\`${text.replace(/\s+/g, ' ').replaceAll('`', "'").replaceAll('|', '\\|')}\``;
