import { EntitySchema } from '@mikro-orm/core';
import { isTimeZone } from '../engine/fields/index.ts';
import { suggestion } from '../engine/yaml/index.ts';
import { scheduleIssue } from '../plugins/jobs/index.ts';
import type { ModuleDefinition } from './define-module.ts';

/** Adds a line to `issues` if a value at a path in a module has the wrong shape. */
type Check = (value: unknown, path: string, issues: string[]) => void;

/** Creates a check for values of one kind. @param expected completes "must be …" */
const kind =
  (expected: string, isValid: (value: unknown) => boolean): Check =>
  (value, path, issues) => {
    if (!isValid(value)) issues.push(`${path}: must be ${expected}`);
  };

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const text = kind('a text', (value) => typeof value === 'string' && value !== '');
const aFunction = kind('a function', (value) => typeof value === 'function');
const anObject = kind('an object', isObject);
const objectOrFunction = kind(
  'an object or a function',
  (value) => isObject(value) || typeof value === 'function',
);

const schedule: Check = (value, path, issues) => {
  const issue = scheduleIssue(value);
  if (issue !== undefined)
    issues.push(`${path}: must be a cron expression with five fields, for example "0 2 * * *": ${issue}`);
};

/** Creates a check for each item of a list. */
const listOf =
  (item: Check): Check =>
  (value, path, issues) => {
    if (!Array.isArray(value)) issues.push(`${path}: must be a list`);
    else for (const [index, each] of value.entries()) item(each, `${path}[${index}]`, issues);
  };

/** Creates a check for each value of an object whose keys are names. */
const mapOf =
  (item: Check): Check =>
  (value, path, issues) => {
    if (!isObject(value)) issues.push(`${path}: must be an object`);
    else for (const [key, each] of Object.entries(value)) item(each, `${path}.${key}`, issues);
  };

/** Creates a check for an object with fixed keys. Undefined values count as absent. */
const objectWith =
  (checks: Readonly<Record<string, Check>>, required: readonly string[] = []): Check =>
  (value, path, issues) => {
    const at = (key: string) => (path === '' ? key : `${path}.${key}`);
    if (!isObject(value)) {
      issues.push(`${path}: must be an object`);
      return;
    }
    for (const [key, each] of Object.entries(value)) {
      const check = Object.hasOwn(checks, key) ? checks[key] : undefined;
      if (check === undefined)
        issues.push(`${at(key)}: unknown key${suggestion(key, Object.keys(checks)) || '.'}`);
      else if (each !== undefined) check(each, at(key), issues);
    }
    for (const key of required) if (value[key] === undefined) issues.push(`${at(key)}: is missing`);
  };

/** Creates a check for objects that must have these functions and can have other keys. */
const objectHaving =
  (...keys: readonly string[]): Check =>
  (value, path, issues) => {
    if (!isObject(value)) issues.push(`${path}: must be an object`);
    else for (const key of keys) if (value[key] === undefined) issues.push(`${path}.${key}: is missing`);
  };

/** Names of modules. They are also keys in config.yaml and, with "_" for "-", prefixes of tables. */
const namePattern = /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/;

/** Returns whether a name can be the name of a module. See {@link moduleNameRule}. */
export const isModuleName = (name: string): boolean => name.length <= 30 && namePattern.test(name);

/** Describes the valid names of modules. Completes "must be …". */
export const moduleNameRule = 'lowercase words separated by "-", with at most 30 characters';

/** Creates a check for channels, whose names follow the rule for the names of modules. */
const channelsWith =
  (channel: Check): Check =>
  (value, path, issues) => {
    mapOf(channel)(value, path, issues);
    if (!isObject(value)) return;
    for (const name of Object.keys(value))
      if (!isModuleName(name)) issues.push(`${path}.${name}: the name must be ${moduleNameRule}`);
  };

/** One check for each key of a module. */
const moduleChecks: { readonly [Key in keyof Required<ModuleDefinition>]: Check } = {
  name: kind(moduleNameRule, (value) => typeof value === 'string' && isModuleName(value)),
  tables: listOf(kind('a table (EntitySchema)', (value) => value instanceof EntitySchema)),
  variables: mapOf(objectHaving('name', 'read', 'expected')),
  settings: objectOrFunction,
  openApi: objectOrFunction,
  responses: objectWith({ headers: anObject, errors: anObject, isEnabled: aFunction }, [
    'headers',
    'errors',
    'isEnabled',
  ]),
  needs: listOf(objectHaving('resource')),
  isDivisible: kind('true', (value) => value === true),
  hooks: mapOf(
    objectWith({
      beforeWrite: aFunction,
      beforeWrites: aFunction,
      afterWrite: aFunction,
      afterWrites: aFunction,
      afterCommit: aFunction,
    }),
  ),
  actions: mapOf(
    mapOf(
      objectWith(
        {
          description: text,
          label: text,
          ofCollection: kind('true', (value) => value === true),
          job: kind('true', (value) => value === true),
          schedule,
          timeZone: kind(
            'a time zone, for example "Europe/Berlin"',
            (value) => typeof value === 'string' && isTimeZone(value),
          ),
          maxMinutes: kind(
            'a whole number between 1 and 1440',
            (value) => Number.isInteger(value) && Number(value) >= 1 && Number(value) <= 1440,
          ),
          permission: kind('read, create, update, delete or own', (value) =>
            ['read', 'create', 'update', 'delete', 'own'].some((action) => action === value),
          ),
          input: anObject,
          output: anObject,
          run: aFunction,
        },
        ['description', 'run'],
      ),
    ),
  ),
  channels: channelsWith(
    objectWith(
      {
        label: text,
        secretLabel: text,
        secretHelp: text,
        tokenLabel: text,
        tokenHelp: text,
        senders: kind('phone or email', (value) => value === 'phone' || value === 'email'),
        handshake: kind('true or false', (value) => typeof value === 'boolean'),
        accepts: kind(
          'a regular expression without the flags g and y',
          (value) => value instanceof RegExp && !value.global && !value.sticky,
        ),
        bodyLimit: kind(
          'a number of bytes between 1 and 10485760',
          (value) => Number.isInteger(value) && Number(value) >= 1 && Number(value) <= 10_485_760,
        ),
        signsUrl: kind('true', (value) => value === true),
        verify: aFunction,
        events: aFunction,
        reply: objectWith({ type: text, body: kind('a text', (value) => typeof value === 'string') }, [
          'type',
          'body',
        ]),
        process: aFunction,
        send: aFunction,
        simulation: objectWith({ contentType: text, eventId: aFunction, body: aFunction, sign: aFunction }, [
          'contentType',
          'eventId',
          'body',
          'sign',
        ]),
      },
      ['label', 'secretLabel', 'secretHelp', 'accepts', 'bodyLimit', 'verify', 'events', 'reply', 'process'],
    ),
  ),
  register: aFunction,
  pages: aFunction,
  metrics: aFunction,
  commands: aFunction,
  checks: listOf(objectHaving('name', 'needs', 'run')),
};

const isModule = objectWith(moduleChecks, ['name']);

/** Returns one line for each unknown key and each value of the wrong type in a module, with its path. */
export function moduleIssues(module: object): readonly string[] {
  const issues: string[] = [];
  isModule(module, '', issues);
  return issues;
}
