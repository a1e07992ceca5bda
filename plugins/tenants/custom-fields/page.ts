import type { FastifyInstance } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { type CustomFieldOptions, customTypes, resourceLabel } from '../../../engine/definition/index.ts';
import { type FieldIssue, HttpError } from '../../../engine/errors.ts';
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
  messageIn,
  type ObjectContext,
  ownWords,
  type Text,
  TranslatedError,
} from '../../admin-ui/shell/index.ts';
import { changeCustomField, createCustomField, setDeleted } from './custom-fields.ts';
import { readChange, readNewField } from './input.ts';
import { fieldRetentionDays } from './retention.ts';
import { customFieldsTexts } from './texts/index.ts';

const { later } = customFieldsTexts;

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
    throw cause instanceof HttpError
      ? new TranslatedError((language) => messageIn(cause, language), { cause })
      : cause;
  }
  forgetCustomFields(services.database, organization);
}

/** Returns the result. @throws UserError with the first issue */
function checked<T>(read: (issues: FieldIssue[]) => T | undefined): T {
  const issues: FieldIssue[] = [];
  const result = read(issues);
  const [issue] = issues;
  if (issue !== undefined)
    throw new TranslatedError((language) =>
      language === 'en' ? ownWords(issue.message) : later('invalidProperty', { name: issue.field })(language),
    );
  if (result === undefined) throw new Error('an invalid field without an issue');
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
function inputsFor(
  form: Form,
  options: Partial<CustomFieldOptions>,
  groups: readonly string[],
  t: ReturnType<typeof customFieldsTexts>,
): Input<Text>[] {
  const isSent = form.label !== undefined;
  const value = (name: 'default' | 'group' | (typeof texts)[number] | (typeof numbers)[number]) =>
    isSent ? field(form, name) : String(options[name] ?? '');
  const isChecked = (name: 'closed' | 'required') =>
    isSent ? field(form, name) === 'true' : options[name] === true;
  const choice = (
    name: 'format' | 'group',
    label: Text,
    help: Text,
    names: readonly string[],
  ): Input<Text> => ({
    ...{ kind: 'choice', name, label, help },
    options: [
      { value: '', label: '–', selected: value(name) === '' },
      ...names.map((option) => ({ value: option, label: option, selected: value(name) === option })),
    ],
  });
  const hasInputs = (isOfType: (type: string) => boolean) =>
    options.type === undefined || isOfType(options.type);
  const textInputs: Input<Text>[] = [
    {
      kind: 'lines',
      name: 'enum',
      label: t('values'),
      value: isSent ? field(form, 'enum') : (options.enum ?? []).join('\n'),
      help: t('valuesHelp'),
    },
    { kind: 'checkbox', name: 'closed', label: t('closed'), checked: isChecked('closed') },
    {
      kind: 'number',
      name: 'min_length',
      label: t('minLength'),
      value: value('min_length'),
      help: t('lengthHelp'),
    },
    {
      kind: 'number',
      name: 'max_length',
      label: t('maxLength'),
      value: value('max_length'),
      help: t('lengthHelp'),
    },
    choice('format', t('format'), t('formatHelp'), textFormatNames),
    {
      kind: 'line',
      name: 'pattern',
      label: t('pattern'),
      value: value('pattern'),
      help: t('patternHelp'),
    },
  ];
  const numberInputs: Input<Text>[] = [
    { kind: 'number', name: 'min', label: t('min'), value: value('min'), help: t('numberHelp') },
    { kind: 'number', name: 'max', label: t('max'), value: value('max'), help: t('numberHelp') },
  ];
  return [
    {
      kind: 'line',
      name: 'label',
      label: t('label'),
      value: value('label'),
      help: t('labelHelp'),
    },
    {
      kind: 'line',
      name: 'help',
      label: t('help'),
      value: value('help'),
      help: t('helpHelp'),
    },
    { kind: 'checkbox', name: 'required', label: t('required'), checked: isChecked('required') },
    {
      kind: 'line',
      name: 'default',
      label: t('default'),
      value: value('default'),
      help: t('defaultHelp'),
    },
    ...(hasInputs(isText) ? textInputs : []),
    ...(hasInputs(isNumber) ? numberInputs : []),
    {
      kind: 'line',
      name: 'message',
      label: t('message'),
      value: value('message'),
      help: t('messageHelp'),
    },
    ...(groups.length === 0 ? [] : [choice('group', t('group'), t('groupHelp'), groups)]),
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
  title: later('customFields'),
  group: 'Data',
  icon: 'columns-3',
  plural: later('rows'),
  source: fieldRows,
  missing: () => later('missing'),
  nameOf: ({ name }) => name,
  views: {
    active: { label: later('active'), where: 'f.deleted_at is null' },
    deleted: { label: later('deletedView'), where: 'f.deleted_at is not null' },
  },
  columns: [
    {
      title: later('name'),
      cell: (row, { urlOf }) => ({
        text: storedOptions(row).label ?? row.name,
        ...(isActive(row) && { href: `${urlOf('change')}?id=${row.id}` }),
      }),
      by: 'f.name',
    },
    { title: later('records'), cell: ({ resource }) => ({ text: resource }), by: 'f.resource' },
    { title: later('key'), cell: ({ name }) => ({ code: `custom.${name}` }) },
    { title: later('type'), cell: ({ type }) => ({ text: type }), by: 'f.type' },
    {
      title: later('deletedAt'),
      cell: ({ deletedAt }) => (deletedAt === null ? { text: '' } : { time: deletedAt }),
      by: 'f.deleted_at',
    },
  ],
  empty: later('none'),
  actions: {
    create: {
      label: later('create'),
      isOnce: true,
      page: ({ services, language }, form) => {
        const t = customFieldsTexts(language);
        return {
          kind: 'form',
          title: t('createAField'),
          inputs: [
            {
              kind: 'choice',
              name: 'resource',
              label: t('records'),
              options: services.resources.map(({ name, definition }) => ({
                value: name,
                label: resourceLabel(definition),
                selected: field(form, 'resource') === name,
              })),
            },
            {
              kind: 'line',
              name: 'name',
              label: t('name'),
              value: field(form, 'name'),
              required: true,
              maxLength: 40,
              help: t('nameHelp'),
            },
            {
              kind: 'choice',
              name: 'type',
              label: t('type'),
              help: t('typeHelp'),
              options: customTypes.map((type) => ({
                value: type,
                label: type,
                selected: field(form, 'type') === type,
              })),
            },
            ...inputsFor(form, {}, groupsOf(services.resources), t),
          ],
          submit: t('create'),
        };
      },
      done: { 'field-created': later('created') },
      run: async (context, form) => {
        const { organization, actor, transact, services } = context;
        const resource = field(form, 'resource');
        const definition = definitionOf(services, resource);
        if (definition === undefined) throw new TranslatedError(later('chooseRecords'));
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
      label: later('change'),
      accessibleName: (name) => later('changeName', { name }),
      isOffered: isActive,
      page: ({ services, language, urlOf }, form, row) => {
        const t = customFieldsTexts(language);
        const groups = groupsOf(services.resources.filter(({ name }) => name === row.resource));
        return {
          kind: 'form',
          title: t('fieldOf', { name: row.name, resource: row.resource }),
          intro: t('changeIntro'),
          inputs: inputsFor(form, storedOptions(row), groups, t),
          submit: t('save'),
          danger: { label: t('deleteField'), href: `${urlOf('delete')}?id=${row.id}` },
        };
      },
      done: { 'field-changed': later('saved') },
      run: async (context, form, row) => {
        const { organization, actor, transact, services } = context;
        const existing = { name: row.name, options: storedOptions(row) };
        const definition = definitionOf(services, row.resource);
        if (definition === undefined)
          throw new TranslatedError(later('withoutFields', { resource: row.resource }));
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
      label: later('delete'),
      accessibleName: (name) => later('deleteName', { name }),
      isOffered: isActive,
      page: ({ language }, _form, { name, resource }) => {
        const t = customFieldsTexts(language);
        return {
          kind: 'confirm',
          title: t('deleteQuestion', { name, resource }),
          consequence: t('deleteConsequence', { days: String(fieldRetentionDays) }),
          submit: t('deleteField'),
        };
      },
      done: { 'field-deleted': later('deleted') },
      run: async (context, _form, { id, name }) => {
        const { organization, actor, transact } = context;
        await change(context, transact, (tables) => setDeleted(tables, actor, organization, id, true));
        return { done: 'field-deleted', name };
      },
    },
    restore: {
      label: later('restore'),
      accessibleName: (name) => later('restoreName', { name }),
      isOffered: (row) => !isActive(row),
      done: { 'field-restored': later('restored') },
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
