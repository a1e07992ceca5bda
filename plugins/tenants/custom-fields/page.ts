import type { FastifyInstance } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { type CustomFieldOptions, customTypes, resourceLabel } from '../../../engine/definition/index.ts';
import { type FieldIssue, HttpError, UserError } from '../../../engine/errors.ts';
import { textFormatNames } from '../../../engine/fields/index.ts';
import {
  customFieldsTable,
  fieldGroups,
  forgetCustomFields,
  storedOptions,
} from '../../../engine/records/index.ts';
import type { RowSource, Tables } from '../../../engine/tables/index.ts';
import {
  addObjects,
  defineObject,
  type Form,
  field,
  type Input,
  type ObjectContext,
} from '../../admin-ui/shell/index.ts';
import { changeCustomField, createCustomField, keptDays, setDeleted } from './custom-fields.ts';
import { readChange, readNewField } from './input.ts';
import { customFieldsTexts } from './texts/index.ts';

/** Services required for the pages of custom fields. */
interface CustomFieldServices {
  readonly database: Database;
  /** The resources whose records have custom fields. */
  readonly resources: readonly Resource[];
}

/** A row of the list of custom fields. */
interface FieldRow {
  readonly id: string;
  readonly resource: string;
  readonly name: string;
  readonly type: string;
  readonly options: string;
  readonly deletedAt: Date | null;
}

const fieldRows: RowSource<FieldRow> = {
  from: `${customFieldsTable} f`,
  owner: 'f.organization_id',
  columns: {
    id: 'f.id',
    resource: 'f.resource',
    name: 'f.name',
    type: 'f.type',
    options: 'f.options',
    deletedAt: 'f.deleted_at',
  },
  search: ['f.resource', 'f.name', 'f.options'],
  order: 'f.resource, f.id',
};

type Context = ObjectContext<CustomFieldServices>;

/** Runs work in a transaction, after which requests to this node use the changed fields. @throws UserError for errors */
async function change(
  { services, organization }: Context,
  transact: <T>(work: (tables: Tables) => Promise<T>) => Promise<T>,
  work: (tables: Tables) => Promise<void>,
): Promise<void> {
  try {
    await transact(work);
  } catch (cause) {
    throw cause instanceof HttpError ? new UserError(cause.message, { cause }) : cause;
  }
  forgetCustomFields(services.database, organization);
}

/** Returns the result. @throws UserError with the first issue */
function checked<T>(read: (issues: FieldIssue[]) => T | undefined): T {
  const issues: FieldIssue[] = [];
  const result = read(issues);
  const [issue] = issues;
  if (result === undefined || issue !== undefined) throw new UserError(issue?.message ?? 'invalid field');
  return result;
}

const numbers = ['min', 'max', 'min_length', 'max_length'] as const;
const texts = ['label', 'help', 'pattern', 'format', 'message'] as const;

/** Returns the groups that a field of one of these resources can have. */
const groupsOf = (resources: readonly Resource[]): readonly string[] => [
  ...new Set(resources.flatMap(({ definition }) => fieldGroups(definition))),
];

const isText = (type: string): boolean => type === 'string' || type === 'text';
const isNumber = (type: string): boolean => type === 'integer' || type === 'int64' || type === 'number';

/**
 * Returns the inputs for the properties of a field.
 * @param options the current properties. If they include the type, only inputs for properties of the type are returned
 * @param groups the groups that the field can have
 */
function inputsFor(form: Form, options: Partial<CustomFieldOptions>, groups: readonly string[]): Input[] {
  const isSent = form.label !== undefined;
  const value = (name: 'default' | 'group' | (typeof texts)[number] | (typeof numbers)[number]) =>
    isSent ? field(form, name) : String(options[name] ?? '');
  const isChecked = (name: 'closed' | 'required') =>
    isSent ? field(form, name) === 'true' : options[name] === true;
  const choice = (
    name: 'format' | 'group',
    label: string,
    help: string,
    names: readonly string[],
  ): Input => ({
    ...{ kind: 'choice', name, label, help },
    options: [
      { value: '', label: '–', selected: value(name) === '' },
      ...names.map((option) => ({ value: option, label: option, selected: value(name) === option })),
    ],
  });
  const hasInputs = (isOfType: (type: string) => boolean) =>
    options.type === undefined || isOfType(options.type);
  const textInputs: Input[] = [
    {
      kind: 'lines',
      name: 'enum',
      label: 'Values',
      value: isSent ? field(form, 'enum') : (options.enum ?? []).join('\n'),
      help: 'Optional. Texts to choose from, one per line.',
    },
    { kind: 'checkbox', name: 'closed', label: 'Accept only these values', checked: isChecked('closed') },
    {
      kind: 'number',
      name: 'min_length',
      label: 'Minimum length',
      value: value('min_length'),
      help: 'Optional. Number of characters of a text.',
    },
    {
      kind: 'number',
      name: 'max_length',
      label: 'Maximum length',
      value: value('max_length'),
      help: 'Optional. Number of characters of a text.',
    },
    choice('format', 'Format', 'Optional. For texts.', textFormatNames),
    {
      kind: 'line',
      name: 'pattern',
      label: 'Pattern',
      value: value('pattern'),
      help: 'Optional. RE2 regular expression that texts match.',
    },
  ];
  const numberInputs: Input[] = [
    { kind: 'number', name: 'min', label: 'Minimum', value: value('min'), help: 'Optional. For numbers.' },
    { kind: 'number', name: 'max', label: 'Maximum', value: value('max'), help: 'Optional. For numbers.' },
  ];
  return [
    {
      kind: 'line',
      name: 'label',
      label: 'Label',
      value: value('label'),
      help: 'Optional. Default: the name.',
    },
    {
      kind: 'line',
      name: 'help',
      label: 'Help',
      value: value('help'),
      help: 'Optional. Shown to users who enter a value.',
    },
    { kind: 'checkbox', name: 'required', label: 'Required', checked: isChecked('required') },
    {
      kind: 'line',
      name: 'default',
      label: 'Default',
      value: value('default'),
      help: 'Optional. The value of new records without a value.',
    },
    ...(hasInputs(isText) ? textInputs : []),
    ...(hasInputs(isNumber) ? numberInputs : []),
    {
      kind: 'line',
      name: 'message',
      label: 'Error message',
      value: value('message'),
      help: 'Optional. Shown for values that violate a rule.',
    },
    ...(groups.length === 0
      ? []
      : [choice('group', 'Field group', 'Optional. Only members with its grants see the values.', groups)]),
  ];
}

/** Returns a default as a value of the field's type, or the text if it is not one. Null if it is empty. */
function defaultIn(form: Form, type: string): unknown {
  const text = field(form, 'default').trim();
  if (text === '') return null;
  if (type === 'boolean') return text === 'true' || (text === 'false' ? false : text);
  return isNumber(type) && !Number.isNaN(Number(text)) ? Number(text) : text;
}

/** Returns the properties in a form, as in a request to the API. Empty inputs are null. */
function propertiesIn(form: Form, type: string): Readonly<Record<string, unknown>> {
  const values = field(form, 'enum')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  return {
    ...Object.fromEntries(texts.map((name) => [name, field(form, name).trim() || null])),
    enum: values.length === 0 ? null : values,
    closed: field(form, 'closed') === 'true' ? true : null,
    required: field(form, 'required') === 'true' ? true : null,
    default: defaultIn(form, type),
    ...(form.group !== undefined && { group: field(form, 'group') || null }),
    ...Object.fromEntries(
      numbers.map((name) => {
        const text = field(form, name).trim();
        return [name, text === '' ? null : Number.isNaN(Number(text)) ? text : Number(text)];
      }),
    ),
  };
}

/** Returns the definition of a resource with custom fields. */
const definitionOf = ({ resources }: CustomFieldServices, name: string) =>
  resources.find((resource) => resource.name === name)?.definition;

const isActive = ({ deletedAt }: FieldRow): boolean => deletedAt === null;

/** The fields that an organization has added to its records. */
const customFields = defineObject<FieldRow, CustomFieldServices>({
  name: 'custom-fields',
  title: customFieldsTexts.later('customFields'),
  group: 'Data',
  icon: 'columns-3',
  plural: 'custom fields',
  source: fieldRows,
  missing: () => 'this custom field does not exist',
  nameOf: ({ name }) => name,
  views: {
    active: { label: 'Active', where: 'f.deleted_at is null' },
    deleted: { label: 'Deleted', where: 'f.deleted_at is not null' },
  },
  columns: [
    {
      title: 'Name',
      cell: (row, { urlOf }) => ({
        text: storedOptions(row).label ?? row.name,
        ...(isActive(row) && { href: `${urlOf('change')}?id=${row.id}` }),
      }),
      by: 'f.name',
    },
    { title: 'Records', cell: ({ resource }) => ({ text: resource }), by: 'f.resource' },
    { title: 'Key', cell: ({ name }) => ({ code: `custom.${name}` }) },
    { title: 'Type', cell: ({ type }) => ({ text: type }), by: 'f.type' },
    {
      title: 'Deleted',
      cell: ({ deletedAt }) => (deletedAt === null ? { text: '' } : { time: deletedAt }),
      by: 'f.deleted_at',
    },
  ],
  empty: 'A custom field adds a value to the records of your organization.',
  actions: {
    create: {
      label: 'Create field',
      isOnce: true,
      page: ({ services }, form) => ({
        kind: 'form',
        title: 'Create a custom field',
        inputs: [
          {
            kind: 'choice',
            name: 'resource',
            label: 'Records',
            options: services.resources.map(({ name, definition }) => ({
              value: name,
              label: resourceLabel(definition),
              selected: field(form, 'resource') === name,
            })),
          },
          {
            kind: 'line',
            name: 'name',
            label: 'Name',
            value: field(form, 'name'),
            required: true,
            maxLength: 40,
            help: 'The key in the API, for example shoe_size. It cannot be changed.',
          },
          {
            kind: 'choice',
            name: 'type',
            label: 'Type',
            help: 'It cannot be changed.',
            options: customTypes.map((type) => ({
              value: type,
              label: type,
              selected: field(form, 'type') === type,
            })),
          },
          ...inputsFor(form, {}, groupsOf(services.resources)),
        ],
        submit: 'Create field',
      }),
      done: { 'field-created': '{} created.' },
      run: async (context, form) => {
        const { organization, actor, transact, services } = context;
        const resource = field(form, 'resource');
        const definition = definitionOf(services, resource);
        if (definition === undefined) throw new UserError('choose the records');
        const type = field(form, 'type');
        const body = { ...propertiesIn(form, type), name: field(form, 'name').trim(), type };
        const { name, options } = checked((issues) => readNewField(definition, body, issues));
        await change(context, transact, (tables) =>
          createCustomField(tables, actor, { organization, resource, name }, options),
        );
        return { done: 'field-created', name };
      },
    },
  },
  rowActions: {
    change: {
      label: 'Change',
      isOffered: isActive,
      page: (context, form, row) => ({
        kind: 'form',
        title: `${row.name} of ${row.resource}`,
        intro: 'Changed limits apply to new values only.',
        inputs: inputsFor(
          form,
          storedOptions(row),
          groupsOf(context.services.resources.filter(({ name }) => name === row.resource)),
        ),
        submit: 'Save field',
        danger: { label: 'Delete field', href: `${context.urlOf('delete')}?id=${row.id}` },
      }),
      done: { 'field-changed': '{} updated.' },
      run: async (context, form, row) => {
        const { organization, actor, transact, services } = context;
        const existing = { name: row.name, options: storedOptions(row) };
        const definition = definitionOf(services, row.resource);
        if (definition === undefined) throw new UserError(`${row.resource} does not have custom fields`);
        const { options } = checked((issues) =>
          readChange(definition, existing, propertiesIn(form, row.type), issues),
        );
        await change(context, transact, (tables) =>
          changeCustomField(tables, actor, organization, row.id, options),
        );
        return { done: 'field-changed', name: row.name };
      },
    },
    delete: {
      label: 'Delete',
      isOffered: isActive,
      page: (_context, _form, { name, resource }) => ({
        kind: 'confirm',
        title: `Delete ${name} of ${resource}?`,
        consequence: `Its values are hidden now and deleted after ${keptDays} days. Until then, the field can be restored.`,
        submit: 'Delete field',
      }),
      done: { 'field-deleted': '{} deleted.' },
      run: async (context, _form, { id, name }) => {
        const { organization, actor, transact } = context;
        await change(context, transact, (tables) => setDeleted(tables, actor, organization, id, true));
        return { done: 'field-deleted', name };
      },
    },
    restore: {
      label: 'Restore',
      isOffered: (row) => !isActive(row),
      done: { 'field-restored': '{} restored.' },
      run: async (context, _form, { id, name }) => {
        const { organization, actor, transact } = context;
        await change(context, transact, (tables) => setDeleted(tables, actor, organization, id, false));
        return { done: 'field-restored', name };
      },
    },
  },
});

/** Registers the pages for custom fields. */
export const customFieldPages = (app: FastifyInstance, services: CustomFieldServices): void =>
  addObjects(app, services, [customFields]);
