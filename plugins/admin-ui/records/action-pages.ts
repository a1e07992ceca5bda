import { randomUUID } from 'node:crypto';
import { resourceLabel } from '../../../engine/definition/index.ts';
import { errors, HttpError } from '../../../engine/errors.ts';
import { humanize, type JsonSchema, parseDocument } from '../../../engine/fields/index.ts';
import { type Body, idOfJob, labelOfAction, type ModuleAction } from '../../../engine/records/index.ts';
import {
  type Form,
  field,
  type Input,
  issueMessageIn,
  type Link,
  messageIn,
  ownWords,
  redirectDone,
  type Text,
} from '../shell/index.ts';
import { formKey } from './create-once.ts';
import { jobPath } from './job-pages.ts';
import type { DataRequest, DataRoutes } from './routes.ts';
import type { RecordsText } from './texts/index.ts';

/** Returns the links to the actions that a member can perform. @param id the record's ID; undefined for actions of the collection */
export const actionLinks = (
  { resource, calls, path }: DataRequest,
  id: string | undefined,
): readonly Link[] =>
  resource.actions
    .filter(
      ({ ofCollection, grant }) =>
        (ofCollection === true) === (id === undefined) && calls.allows(resource, grant),
    )
    .map((action) => ({
      label: labelOfAction(action),
      href: `${path}${id === undefined ? '' : `/${id}`}/actions/${action.name}`,
    }));

/** Registers the forms for the actions of modules. */
export function actionPages({ get, post }: DataRoutes): void {
  for (const prefix of ['/:id', '']) {
    get(`${prefix}/actions/:action`, (context) =>
      actionForm(context, actionOf(context, prefix !== ''), { texts: {}, key: randomUUID() }),
    );
    post(`${prefix}/actions/:action`, async (context) => {
      const { request, reply, resource, calls, path } = context;
      const action = actionOf(context, prefix !== '');
      const { id } = request.params as { id?: string };
      const form = (request.body ?? {}) as Form;
      const key = formKey(form);
      const texts = Object.fromEntries(
        inputsOf(action).map(({ name }) => [name, field(form, inputName(name))]),
      );
      let result: string;
      try {
        result = await calls.act(resource, action, { id, body: bodyOf(action, texts), key });
      } catch (error) {
        if (!(error instanceof HttpError) || ![400, 409, 422, 429].includes(error.status)) throw error;
        reply.code(error.status);
        return actionForm(context, action, { texts, key, error });
      }
      if (action.job) return reply.redirect(jobPath(context, idOfJob(result)), 303);
      const hasRecord = id !== undefined && calls.allows(resource, 'read');
      return redirectDone(request, reply, hasRecord ? `${path}/${id}` : path, 'action-done', {
        name: labelOfAction(action),
      });
    });
  }
}

/** Returns the action in a URL. @throws HttpError 404 if it does not exist, or 403 if the member cannot perform it */
function actionOf({ request, resource, calls }: DataRequest, isOfRecord: boolean): ModuleAction {
  const { action: name } = request.params as { action: string };
  const action = resource.actions.find(
    (candidate) => candidate.name === name && (candidate.ofCollection !== true) === isOfRecord,
  );
  if (action === undefined) throw errors.notFound();
  if (!calls.allows(resource, action.grant)) throw errors.forbidden(resource.name, action.grant);
  return action;
}

/** A property of an action's input. */
interface Property {
  readonly name: string;
  readonly schema: JsonSchema;
  readonly isRequired: boolean;
}

/** Returns the properties of an action's input. */
function inputsOf({ input = {} }: ModuleAction): readonly Property[] {
  const { properties = {}, required = [] } = input as {
    readonly properties?: Readonly<Record<string, JsonSchema>>;
    readonly required?: readonly string[];
  };
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    schema,
    isRequired: required.includes(name),
  }));
}

/** Returns the name of a property in the form, which is distinct from the form's own fields. */
const inputName = (name: string): string => `input.${name}`;

const isNumeric = ({ type }: JsonSchema): boolean => type === 'number' || type === 'integer';
const isText = ({ type, enum: values }: JsonSchema): boolean => type === 'string' || Array.isArray(values);

/** Returns the body for a form. Blank inputs are omitted. */
const bodyOf = (action: ModuleAction, texts: Readonly<Record<string, string>>): Body =>
  Object.fromEntries(
    inputsOf(action).flatMap(({ name, schema }) => {
      const text = (texts[name] ?? '').trim();
      if (schema.type === 'boolean') return [[name, text !== '']];
      if (text === '') return [];
      if (isNumeric(schema)) return [[name, Number.isNaN(Number(text)) ? text : Number(text)]];
      return [[name, isText(schema) ? text : parseDocument(text)]];
    }),
  );

/** The state of an action's form. */
interface ActionState {
  readonly texts: Readonly<Record<string, string>>;
  /** Identifies the form, so that submitting it twice performs the action once. */
  readonly key: string;
  /** Why the action was rejected. */
  readonly error?: HttpError;
}

/** Sends an action's form. */
async function actionForm(context: DataRequest, action: ModuleAction, { texts, key, error }: ActionState) {
  const { request, resource, calls, titles, path, sendPage, language, t } = context;
  const { id } = request.params as { id?: string };
  const canRead = id !== undefined && calls.allows(resource, 'read');
  const title = canRead ? titles.of(resource, (await calls.read(resource, id)).record) : undefined;
  const label = labelOfAction(action);
  const back = canRead ? `${path}/${id}` : path;
  const issues = new Map(error?.extra.fields?.map((issue) => [issue.field, issueMessageIn(issue, language)]));
  const inputs = inputsOf(action);
  const isShown = inputs.some(({ name }) => issues.has(name));
  return sendPage(
    {
      kind: 'form',
      title: title === undefined ? ownWords(label) : t('actionOn', { action: label, name: title }),
      above: { label: title ?? resourceLabel(resource.definition), href: back },
      intro: action.description === undefined ? undefined : ownWords(action.description),
      action: `${path}${id === undefined ? '' : `/${id}`}/actions/${action.name}`,
      hidden: [{ name: 'key', value: error?.code === 'idempotency_key_reused' ? randomUUID() : key }],
      inputs: inputs.map((property, index) => ({
        ...inputFor(property, texts[property.name] ?? '', t),
        error: issues.get(property.name),
        ...(index === 0 && { focus: true }),
      })),
      submit: ownWords(label),
      cancel: back,
    },
    error === undefined || isShown ? {} : { problem: messageIn(error, language) },
  );
}

/** Returns the control for a property. */
function inputFor({ name, schema, isRequired }: Property, text: string, t: RecordsText): Input<Text> {
  const { title, description, enum: values, format } = schema;
  const common = {
    name: inputName(name),
    label: ownWords(typeof title === 'string' ? title : humanize(name)),
    required: isRequired,
    help: typeof description === 'string' ? ownWords(description) : undefined,
  };
  if (schema.type === 'boolean')
    return { ...common, kind: 'checkbox', required: false, value: 'on', checked: text !== '' };
  if (Array.isArray(values)) {
    const options = (isRequired ? [] : ['']).concat(values.map(String));
    return {
      ...common,
      kind: 'choice',
      options: options.map((value) => ({
        value,
        label: value === '' ? '–' : value,
        selected: value === text,
      })),
    };
  }
  if (isNumeric(schema)) return { ...common, kind: 'line', value: text };
  if (schema.type === 'string') return { ...common, kind: format === 'date' ? 'day' : 'line', value: text };
  return { ...common, kind: 'lines', value: text, help: common.help ?? t('json') };
}
