import type { ResourceView } from '../../../engine/compile/index.ts';
import { errors } from '../../../engine/errors.ts';
import { type Field, linksOf, rulesOf } from '../../../engine/fields/index.ts';
import { withCustomFilters } from '../../../engine/query/index.ts';
import {
  actionsOf,
  groupsOf,
  labelOfAction,
  measuresOf,
  recordLimits,
  visibleCustomFields,
} from '../../../engine/records/index.ts';
import { limitedFields, transitionSentences } from '../explorer/index.ts';
import { defaultFields } from './compact-records.ts';
import { proposalsNote } from './proposals.ts';
import { customFieldsFor, isAllowed, type ToolCall, type ToolResult } from './tool.ts';

/** Returns the actions that the caller can perform on a resource's records, each with the scopes to which it is limited. */
function grantedActions(call: ToolCall, view: ResourceView): readonly string[] {
  const { stored } = view.context;
  const own = view.actions.map(({ grant }) => grant);
  return [...new Set([...actionsOf(stored), ...own])]
    .filter((action) => isAllowed(call, view, action))
    .map((action) => {
      const limits = actionsOf(stored)
        .filter((name) => name === action)
        .flatMap((name) => recordLimits(call.caller.principal.grants, stored, name));
      const scopes = limits.map((limit) => limit.map(({ name }) => name).join(' or ')).join(' and ');
      return scopes === '' ? action : `${action} (only records in the scope ${scopes})`;
    });
}

/** Describes the instance: the resources, and the caller's permissions. */
export function describeResources(call: ToolCall): ToolResult {
  const { caller, views } = call;
  const described = views.map((view) => ({ view, may: grantedActions(call, view) }));
  const hidden = described.filter(({ may }) => may.length === 0).map(({ view }) => view.name);
  return {
    caller: caller.principal.name ?? caller.principal.kind,
    resources: described
      .filter(({ may }) => may.length > 0)
      .map(({ view: { name, definition }, may }) => ({
        name,
        description: definition.description,
        you_may: may.join(', '),
      })),
    ...(hidden.length > 0 && { no_access: hidden }),
    run: call.runs.issue(caller.principal),
    ...(caller.principal.proposes !== undefined && { proposals: proposalsNote }),
    next: 'Call describe with "resource" before you use a resource for the first time. Pass "run" to all writes of your task.',
  };
}

/** Describes a resource: its fields with their rules, and the values that the tools accept. @throws HttpError 403 without any grant */
export async function describeResource(call: ToolCall, view: ResourceView): Promise<ToolResult> {
  const { definition } = view;
  const may = grantedActions(call, view);
  if (may.length === 0) throw errors.forbidden(view.name, 'list');
  const { fields, search, sort, uniques, checks, locked, trash } = definition;
  const names = new Set(fields.map(({ name }) => name));
  const custom = (await customFieldsFor(call, view))?.get(view.name) ?? [];
  const ownFields = visibleCustomFields(custom, definition, call.caller.principal.grants);
  const { filters } = withCustomFilters(definition, ownFields);
  const transitions = limitedFields(fields).map((field) => [field.name, transitionSentences(field)] as const);
  const rules = checks.filter((check) => check.fields.every(({ name }) => names.has(name)));
  const actions = view.actions.filter(({ grant }) => isAllowed(call, view, grant));
  return {
    name: view.name,
    description: definition.description,
    you_may: may.join(', '),
    fields: Object.fromEntries(
      fields
        .filter(({ aliasOf, type }) => aliasOf === undefined && type.custom !== true)
        .map((field) => [field.name, fieldText(field)]),
    ),
    ...(ownFields.length > 0 && {
      custom: Object.fromEntries(
        ownFields.map((field) => [field.custom?.key ?? field.name, fieldText(field)]),
      ),
    }),
    default_fields: defaultFields(call, view),
    ...(call.caller.principal.proposes !== undefined && { writes: 'become proposals' }),
    where: Object.fromEntries(filters.map(({ name, operators }) => [name, operators.join(' ')])),
    sort: [...sort.choices.keys()].join(', ') || `always ${sort.field.name}`,
    ...(search.length > 0 && { q_searches: search.map(({ name }) => name).join(', ') }),
    ...(definition.aggregates && {
      aggregate: {
        group_by: groupsOf(definition)
          .map(({ name }) => name)
          .join(', '),
        measure: measuresOf(definition)
          .map(({ name }) => name)
          .join(', '),
      },
    }),
    ...(uniques.length > 0 && {
      unique: uniques.map((unique) => unique.map(({ name }) => name).join(' + ')),
    }),
    ...(rules.length > 0 && { rules: rules.map(({ message }) => message) }),
    ...(transitions.length > 0 && { transitions: Object.fromEntries(transitions) }),
    ...(locked !== undefined && {
      locked: locked.message ?? 'Records in some states are locked and cannot be changed.',
    }),
    delete:
      trash === undefined
        ? 'permanent'
        : `to the trash, from which records can be restored for ${trash.days} days`,
    ...(actions.length > 0 && {
      actions: actions.map((action) => ({
        action: action.name,
        label: labelOfAction(action),
        ...(action.ofCollection ? { without: 'id' } : {}),
        ...(action.job && { runs: 'in the background' }),
        ...(action.input !== undefined && { input: action.input }),
      })),
    }),
  };
}

/** Returns what a caller needs to know about a field, in one line. */
function fieldText(field: Field): string {
  const {
    typeName,
    of,
    values,
    required,
    nullable,
    readOnly,
    description,
    default: absent,
    sequence,
  } = field;
  const targets = linksOf(field).flatMap(({ to }) => to ?? []);
  const known =
    values === undefined
      ? []
      : [`${values.accepted === undefined ? 'known values' : 'one of'}: ${values.list.join(' | ')}`];
  const rules = rulesOf(field)
    .filter(({ key }) => key !== 'closed')
    .map(({ must }) => `must ${must}`);
  const facts = [
    `${typeName}${of === undefined ? '' : ` of ${of}`}${targets.length === 0 ? '' : ` to ${targets.join(' or ')}`}`,
    ...(readOnly || sequence !== undefined ? ['read-only'] : []),
    ...(required ? ['required'] : []),
    ...(nullable && !readOnly ? ['nullable'] : []),
    ...(readOnly || typeof absent === 'object' || absent === '' ? [] : [`default ${absent}`]),
    ...known,
    ...rules,
  ];
  // Custom fields can have a help text, but no description.
  const explanation = description === '' ? (field.help ?? '') : description;
  return explanation === '' ? facts.join('; ') : `${facts.join('; ')}. ${explanation}`;
}
