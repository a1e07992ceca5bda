import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import leven from 'leven';
import { UserError } from '../errors.ts';

/** Path to this package's folder. */
export const projectFolder = join(import.meta.dirname, '../..');

/** Name of this package. */
export const packageName = 'crm-engine';

/**
 * Returns the instance's folder, which is the working directory if its package depends on this package (`crm new`), or
 * otherwise this package's folder.
 */
export function instanceFolder(): string {
  const folder = process.cwd();
  const manifest = join(folder, 'package.json');
  if (!existsSync(manifest)) return projectFolder;
  try {
    const { dependencies = {} } = JSON.parse(readFileSync(manifest, 'utf8')) as { dependencies?: object };
    return Object.hasOwn(dependencies, packageName) ? folder : projectFolder;
  } catch (cause) {
    throw new UserError(`Cannot read ${manifest}: ${(cause as Error).message}`, { cause });
  }
}

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** An environment variable, read once at startup. */
export interface Variable<T> {
  /** Name in capital letters, for example DATABASE_URL. */
  readonly name: string;
  /** Value used if the variable is absent or empty. */
  readonly fallback: T;
  /** Description of the valid values. Completes "PORT must be …". */
  readonly expected: string;
  /** Whether a blank value is an error, because the fallback would silently select another instance. */
  readonly rejectsBlank?: true;
  /** Formats the value for display and hides secrets. If absent, the variable's text is displayed unchanged. */
  show?(value: T): string;
  /**
   * Parses the variable's text. Returns undefined if it is invalid.
   * @throws UserError to report an issue in more detail than `expected`
   */
  readonly read: (text: string) => T | undefined;
}

/** Environment variables of a module, keyed by the property names of their values. */
export type Variables = Readonly<Record<string, Variable<unknown>>>;

/** Values of the variables, with the same keys. */
export type VariableValues<V extends Variables> = {
  readonly [Name in keyof V]: V[Name] extends Variable<infer T> ? T : never;
};

/**
 * Declares an integer variable.
 * @param scale factor that converts the environment's unit to the unit used in code
 */
export const integerVariable = <F extends number | undefined>(
  name: string,
  fallback: F,
  [min, max]: readonly [number, number],
  scale = 1,
): Variable<F extends undefined ? number | undefined : number> => ({
  name,
  fallback: (fallback === undefined ? undefined : fallback * scale) as F extends undefined
    ? number | undefined
    : number,
  expected: `an integer from ${min} to ${max}`,
  show: (value) => (value === undefined ? notSet : String(value / scale)),
  read: (text) => (/^\d{1,9}$/.test(text) && +text >= min && +text <= max ? +text * scale : undefined),
});

/** Declares a text variable. */
export const textVariable = (name: string, fallback: string): Variable<string> => ({
  name,
  fallback,
  expected: 'text',
  read: (text) => text,
});

/**
 * Declares a variable that contains the path to a file or folder. Relative paths are resolved against the
 * working directory. The fallback can also depend on the working directory.
 */
export const pathVariable = (
  name: string,
  fallback: () => string,
  expected: 'a file' | 'a folder',
  options: Pick<Variable<string>, 'rejectsBlank'> = {},
): Variable<string> => ({
  ...options,
  name,
  get fallback() {
    return fallback();
  },
  expected,
  read: (path) => resolve(path),
});

/** The file with the instance's settings. */
export const settingsFileVariable = pathVariable(
  'CRM_CONFIG',
  () => join(instanceFolder(), 'config.yaml'),
  'a file',
);

/**
 * Declares a folder in this package whose files are extended by files in the instance's folder. The value is
 * null if this package is the instance, or if the variable is set, because that folder is then complete.
 * @param name the variable that names the instance's folder
 */
export const shippedFolder = (name: string, folder: string): Variable<string | null> => ({
  name,
  get fallback() {
    return instanceFolder() === projectFolder ? null : join(projectFolder, folder);
  },
  expected: 'a folder',
  read: () => null,
});

/** Declares a variable with a fixed set of values. @param values values, keyed by their text in the environment */
export const choiceVariable = <T>(
  name: string,
  fallback: T,
  values: Readonly<Record<string, T>>,
): Variable<T> => ({
  name,
  fallback,
  expected: `one of ${Object.keys(values).join(', ')}`,
  read: (text) => (Object.hasOwn(values, text) ? values[text] : undefined),
});

/** Declares a variable that is `true` or `false`. */
export const flagVariable = (name: string, fallback: boolean): Variable<boolean> =>
  choiceVariable(name, fallback, { true: true, false: false });

const notSet = 'not set';

/** The effective value of a variable, formatted for display, and whether the environment sets it. */
interface EffectiveVariable {
  readonly name: string;
  readonly value: string;
  readonly isSet: boolean;
}

/** Returns one variable per name, because several variables can read the same text. */
const uniqueByName = (variables: Variables) => {
  const list = Object.values(variables);
  return list.filter(({ name }, index) => list.findIndex((variable) => variable.name === name) === index);
};

/** Returns the variables' effective values, without secrets. The environment must have been validated. */
export const effectiveVariables = (variables: Variables, environment: Environment): EffectiveVariable[] =>
  uniqueByName(variables).map(({ name, fallback, show, read }) => {
    const text = environment[name]?.trim() ?? '';
    if (text !== '') return { name, value: show?.(read(text)) ?? text, isSet: true };
    const isEmpty = fallback === undefined || (Array.isArray(fallback) && fallback.length === 0);
    return { name, value: isEmpty ? notSet : (show?.(fallback) ?? String(fallback)), isSet: false };
  });

/** Minimum length of a known name for its near misses to be errors rather than notes. */
const minNearMissLength = 8;

/**
 * Finds environment variables at most two edits away from a known name of at least 8 characters.
 * @param otherNames additional valid names
 */
export function nearMisses(
  environment: Environment,
  knownNames: readonly string[],
  otherNames: readonly string[] = [],
): { readonly name: string; readonly message: string }[] {
  const longNames = knownNames.filter((name) => name.length >= minNearMissLength);
  return Object.keys(environment)
    .filter((name) => !knownNames.includes(name) && !otherNames.includes(name))
    .flatMap((name) => {
      const suggestion = longNames.find((other) => leven(name.toUpperCase(), other, { maxDistance: 3 }) <= 2);
      return suggestion === undefined
        ? []
        : [
            {
              name,
              message: `${name} is not a known variable. Did you mean ${suggestion}? Correct or unset it.`,
            },
          ];
    });
}

/**
 * Returns a line for each environment variable that is probably misspelled because it is unknown but close to a known
 * name.
 */
export function misspelledNames(environment: Environment, knownNames: readonly string[]): string[] {
  const isNear = (name: string, other: string) =>
    Math.min(name.length, other.length) > 5 && leven(name, other) <= 2;
  return Object.keys(environment)
    .filter((name) => !knownNames.includes(name))
    .flatMap((name) => {
      const suggestion = knownNames.find((other) => isNear(name.toUpperCase(), other));
      return suggestion === undefined ? [] : [`${name} is not a known variable. Did you mean ${suggestion}?`];
    });
}

/** Reads variables from the environment. Adds a line to `issues` for each invalid variable. */
export function readVariables<V extends Variables>(
  variables: V,
  environment: Environment,
  issues: string[],
): VariableValues<V> {
  const values = Object.entries(variables).map(([key, { name, fallback, expected, rejectsBlank, read }]) => {
    const text = environment[name]?.trim() ?? '';
    if (text === '') {
      if (rejectsBlank && environment[name] !== undefined)
        issues.push(`${name} is blank. Set it to ${expected}, or unset it.`);
      return [key, fallback];
    }
    try {
      const value = read(text);
      if (value === undefined) issues.push(`${name} must be ${expected}`);
      return [key, value === undefined ? fallback : value];
    } catch (cause) {
      if (!(cause instanceof UserError)) throw cause;
      issues.push(`${name}: ${cause.message}`);
      return [key, fallback];
    }
  });
  return Object.fromEntries(values) as VariableValues<V>;
}
