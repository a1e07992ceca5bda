import type { FastifyInstance } from 'fastify';
import type { Resource, ResourceView } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { errors, excerpt, type FieldIssue } from '../../../engine/errors.ts';
import { documentText, ExactNumber, int64, integerText } from '../../../engine/fields/index.ts';
import { fieldNamesInRequest } from '../../../engine/http/index.ts';
import { namesIn, type Query } from '../../../engine/query/index.ts';
import {
  allows,
  type Body,
  type Caller,
  type CustomFields,
  customFieldsIn,
  type Idempotency,
  idempotencyOf,
  type TextSigner,
} from '../../../engine/records/index.ts';
import { hintForInput } from '../../../engine/yaml/index.ts';
import { type Titles, titlesOf } from '../../admin-ui/records/index.ts';
import type { Confirmations } from './confirmations.ts';
import type { Runs } from './runs.ts';

/** The JSON Schema of a parameter. */
export type ParameterSchema = {
  readonly type: string | string[];
  readonly description?: string;
  readonly items?: { readonly type: string | string[] };
  readonly minimum?: number;
  readonly maximum?: number;
  readonly default?: number;
};

/** A tool that agents can call. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, ParameterSchema>>;
  readonly required: readonly string[];
  /** Whether the tool writes records. */
  readonly writes?: true;
  /** Returns the number of records that a result contains. Undefined if the tool does not read records. */
  readonly reads?: (result: ToolResult) => number;
  /** Returns arguments that are valid for a resource, for error messages. */
  readonly example: (view: ResourceView) => Readonly<Record<string, unknown>>;
  readonly run: (call: ToolCall, values: Arguments) => Promise<ToolResult>;
}

/** The result of a tool. Numbers that JavaScript would round are `ExactNumber` objects. */
export type ToolResult = Readonly<Record<string, unknown>>;

/** The services that tools use. */
export interface ToolServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
  /** Signs the cursors of lists, as in the API. */
  readonly signing: TextSigner;
  readonly runs: Runs;
  readonly confirmations: Confirmations;
}

/** A call of a tool on behalf of an authenticated caller. */
export interface ToolCall extends ToolServices {
  readonly caller: Caller;
  /** The resources as the caller sees them. */
  readonly views: readonly ResourceView[];
  readonly titles: Titles;
  /** Reports that the call uses a resource, and which of its fields the parameters and the record's values name. */
  readonly reportNames: (view: ResourceView, parameters?: Query, values?: Body) => void;
}

/** Returns the context of a tool's calls. */
export function toolCall(app: FastifyInstance, services: ToolServices, caller: Caller): ToolCall {
  const { principal } = caller;
  const views = services.resources.map((resource) => resource.viewFor(principal.grants));
  return {
    ...services,
    caller,
    views,
    titles: titlesOf(views),
    reportNames: ({ name, definition }, parameters = {}, values) => {
      const known = new Set(definition.fields.map((field) => field.name));
      app.namesSent?.(principal, name, fieldNamesInRequest(parameters, values, known));
    },
  };
}

/** Returns whether the caller can perform an action on at least some of a resource's records. */
export const isAllowed = ({ caller }: ToolCall, { context }: ResourceView, action: string): boolean =>
  allows(caller.principal.grants, context.stored, action);

/** Checks that the caller can perform an action on a resource. @throws HttpError 403 otherwise */
export function permit(call: ToolCall, view: ResourceView, action: string): void {
  if (!isAllowed(call, view, action)) throw errors.forbidden(view.name, action);
}

/** Returns the custom fields in the caller's organization, for the input of operations. */
export const customFieldsFor = async (
  call: ToolCall,
  view: ResourceView,
): Promise<CustomFields | undefined> => customFieldsIn(call.database, view, call.caller);

/** Creates an issue for an unknown name, which suggests a similar one or lists all of them. */
export function unknownNameIn(parameter: string, unknown: string, names: readonly string[]): FieldIssue {
  const hint = hintForInput(unknown, names) ?? `Available: ${names.join(', ')}`;
  return {
    field: parameter,
    message: `Unknown ${parameter} ${JSON.stringify(excerpt(unknown))}. ${hint}`,
    hint,
  };
}

/** The checked arguments of a call. */
export interface Arguments {
  readonly has: (name: string) => boolean;
  readonly text: (name: string) => string | undefined;
  /** Returns the names in a list or in a text that separates them with commas. */
  readonly names: (name: string) => readonly string[] | undefined;
  readonly integer: (name: string) => number | undefined;
  readonly isTrue: (name: string) => boolean;
  readonly object: (name: string) => Body | undefined;
  /** Returns the resource that the call names, as the caller sees it. @throws HttpError 400 if it does not exist */
  readonly view: (call: ToolCall) => ResourceView;
  /** Returns the record's ID as text, which the operation checks. */
  readonly id: () => string;
  /** Returns the IDs of several records. @throws HttpError 400 if one of them is invalid or repeated, or if there are too many */
  readonly ids: () => readonly string[];
  /** Returns the `idempotency_key` of a write, if there is one. @param body the values that are written */
  readonly idempotency: (body: Body) => Idempotency | undefined;
}

/** Maximum number of records that a call can name. */
export const maxIds = 100;

/** Checks of values by the types in parameter schemas. */
const isOfType: Readonly<Record<string, (value: unknown) => boolean>> = {
  string: (value) => typeof value === 'string',
  boolean: (value) => typeof value === 'boolean',
  integer: (value) => integerText(value) !== undefined,
  array: Array.isArray,
  object: (value) =>
    typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber),
};

const typeNames: Readonly<Record<string, string>> = {
  string: 'a string',
  boolean: 'true or false',
  integer: 'an integer',
  object: 'an object',
};

/** Checks the arguments of a call. Null stands for an absent argument. @throws HttpError 400 with all issues */
export function readArguments({ name: tool, parameters, required }: Tool, input: Body): Arguments {
  const values = new Map(Object.entries(input).filter(([, value]) => value !== null && value !== undefined));
  const names = Object.keys(parameters);
  const issues = [...values].flatMap(([name, value]): FieldIssue[] => {
    if (!Object.hasOwn(parameters, name)) {
      const hint = hintForInput(name, names) ?? `Parameters: ${names.join(', ')}`;
      const message = `${tool} does not have the parameter ${JSON.stringify(excerpt(name))}. ${hint}`;
      return [{ field: excerpt(name), message, hint }];
    }
    const types = [parameters[name]?.type ?? []].flat().map(String);
    const itemTypes = [parameters[name]?.items?.type ?? []].flat();
    const hasItems =
      !Array.isArray(value) ||
      value.every((item) => itemTypes.some((type) => isOfType[type]?.(item) === true));
    if (hasItems && types.some((type) => isOfType[type]?.(value) === true)) return [];
    const expected = types.map((type) =>
      type === 'array' ? `a list of ${itemTypes.map((item) => `${item}s`).join(' or ')}` : typeNames[type],
    );
    return [{ field: name, message: `${name} must be ${expected.join(' or ')}` }];
  });
  issues.push(
    ...required
      .filter((name) => !values.has(name))
      .map((name) => ({ field: name, message: `${name} is required` })),
  );
  if (issues.length > 0) throw errors.invalidFields(issues);
  const text = (name: string): string | undefined => {
    const value = values.get(name);
    return value === undefined ? undefined : String(value);
  };
  return {
    text,
    has: (name) => values.has(name),
    names: (name) => {
      const value = values.get(name) as string | readonly string[] | undefined;
      return value === undefined ? undefined : [...namesIn(value)];
    },
    integer: (name) => (values.has(name) ? Number(text(name)) : undefined),
    isTrue: (name) => values.get(name) === true,
    object: (name) => values.get(name) as Body | undefined,
    view: ({ views }) => {
      const name = text('resource') ?? '';
      const view = views.find((candidate) => candidate.name === name);
      if (view !== undefined) return view;
      const all = views.map((candidate) => candidate.name);
      throw errors.invalidFields([unknownNameIn('resource', name, all)]);
    },
    id: () => text('id') ?? '',
    ids: () => {
      const ids = ((values.get('ids') ?? []) as readonly unknown[]).map(String);
      if (ids.length === 0 || ids.length > maxIds || new Set(ids).size < ids.length)
        throw errors.invalidParameter('ids', `must be a list of 1 to ${maxIds} different IDs`);
      const wrong = ids.find((one) => int64(one) === undefined);
      if (wrong !== undefined)
        throw errors.invalidParameter('ids', `must contain only IDs, not ${JSON.stringify(excerpt(wrong))}`);
      return ids;
    },
    idempotency: (body) => {
      const key = text('idempotency_key');
      if (key === undefined) return undefined;
      if (!/^[\x21-\x7e]{1,255}$/.test(key))
        throw errors.invalidParameter('idempotency_key', 'must be 1 to 255 visible ASCII characters');
      return idempotencyOf(key, documentText(body));
    },
  };
}
