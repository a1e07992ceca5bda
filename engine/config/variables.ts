import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import leven from 'leven';
import { UserError } from '../errors.ts';

/** The folder of this package. */
export const projectFolder = join(import.meta.dirname, '../..');

/** The name of this package. */
export const packageName = 'crm-engine';

/** The folder of the instance: the working folder if its package depends on this one (`crm new`), else this package. */
export function instanceFolder(): string {
  const folder = process.cwd();
  const manifest = join(folder, 'package.json');
  if (!existsSync(manifest)) return projectFolder;
  try {
    const { dependencies = {} } = JSON.parse(readFileSync(manifest, 'utf8')) as { dependencies?: object };
    return Object.hasOwn(dependencies, packageName) ? folder : projectFolder;
  } catch (cause) {
    throw new UserError(`${manifest} cannot be read: ${(cause as Error).message}`, { cause });
  }
}

/** The environment: variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** An environment variable that is read once, at start. */
export interface Variable<T> {
  /** In capitals, such as DATABASE_URL. */
  readonly name: string;
  /** Its value if the variable is absent or empty. */
  readonly fallback: T;
  /** What a value must be, as in "PORT must be …". */
  readonly expected: string;
  /** Whether a blank value is an error, because its fallback would silently be another instance. */
  readonly refusesBlank?: true;
  /** A value for people; absent: as it is written. Secrets are hidden here. */
  show?(value: T): string;
  /** Parses a text; undefined if it is invalid. @throws UserError that says more than `expected` */
  readonly read: (text: string) => T | undefined;
}

/** The variables of one module, by the key of their values in code. */
export type Variables = Readonly<Record<string, Variable<unknown>>>;

/** The values of variables. */
export type VariableValues<V extends Variables> = {
  readonly [Name in keyof V]: V[Name] extends Variable<infer T> ? T : never;
};

/** @param scale factor from the unit that people write to the unit that code uses */
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

export const textVariable = (name: string, fallback: string): Variable<string> => ({
  name,
  fallback,
  expected: 'a text',
  read: (given) => given,
});

/** A file or folder; relative paths start at the working directory, which the fallback may depend on. */
export const pathVariable = (
  name: string,
  fallback: () => string,
  expected: 'a file' | 'a folder',
  options: Pick<Variable<string>, 'refusesBlank'> = {},
): Variable<string> => ({
  ...options,
  name,
  get fallback() {
    return fallback();
  },
  expected,
  read: (given) => resolve(given),
});

/**
 * The folder of this package that an instance builds on, where the instance has a folder of its own; null if there is
 * none, or if the variable names a folder: that is complete.
 * @param name of the variable that names the folder of the instance
 */
export const shippedFolder = (name: string, folder: string): Variable<string | null> => ({
  name,
  get fallback() {
    return instanceFolder() === projectFolder ? null : join(projectFolder, folder);
  },
  expected: 'a folder',
  read: () => null,
});

export const choiceVariable = <T>(
  name: string,
  fallback: T,
  values: Readonly<Record<string, T>>,
): Variable<T> => ({
  name,
  fallback,
  expected: `one of ${Object.keys(values).join(', ')}`,
  read: (given) => (Object.hasOwn(values, given) ? values[given] : undefined),
});

export const flagVariable = (name: string, fallback: boolean): Variable<boolean> =>
  choiceVariable(name, fallback, { true: true, false: false });

const notSet = 'not set';

/** A variable in force: its value for people, and whether the environment gives it. */
export interface EffectiveVariable {
  readonly name: string;
  readonly value: string;
  readonly isGiven: boolean;
}

/** Variables; of several that read one text the first. */
const firstOf = (variables: Variables) => {
  const all = Object.values(variables);
  return all.filter(({ name }, index) => all.findIndex((each) => each.name === name) === index);
};

/** The variables in force, without their secrets. The environment is right: it has been read. */
export const effectiveVariables = (variables: Variables, environment: Environment): EffectiveVariable[] =>
  firstOf(variables).map(({ name, fallback, show, read }) => {
    const given = environment[name]?.trim() ?? '';
    if (given !== '') return { name, value: show?.(read(given)) ?? given, isGiven: true };
    const isEmpty = fallback === undefined || (Array.isArray(fallback) && fallback.length === 0);
    return { name, value: isEmpty ? notSet : (show?.(fallback) ?? String(fallback)), isGiven: false };
  });

/** The fewest characters of a known name whose near misses are errors; those of shorter names are only notes. */
const sureLength = 8;

/**
 * Variables of the environment whose names are at most two edits away from a known name of at least 8 characters.
 * @param others further names that mean something
 */
export function nearMisses(
  environment: Environment,
  known: readonly string[],
  others: readonly string[] = [],
): { readonly name: string; readonly message: string }[] {
  const long = known.filter((name) => name.length >= sureLength);
  return Object.keys(environment)
    .filter((name) => !known.includes(name) && !others.includes(name))
    .flatMap((name) => {
      const meant = long.find((other) => leven(name.toUpperCase(), other, { maxDistance: 3 }) <= 2);
      return meant === undefined
        ? []
        : [{ name, message: `${name} means nothing here. Did you mean ${meant}? Correct or unset it.` }];
    });
}

/** Variables of the environment that are probably misspelt: each is close to a known one, and not known itself. */
export function misspelledNames(environment: Environment, known: readonly string[]): string[] {
  const isNear = (name: string, other: string) =>
    Math.min(name.length, other.length) > 5 && leven(name, other) <= 2;
  return Object.keys(environment)
    .filter((name) => !known.includes(name))
    .flatMap((name) => {
      const meant = known.find((other) => isNear(name.toUpperCase(), other));
      return meant === undefined ? [] : [`${name} means nothing here. Did you mean ${meant}?`];
    });
}

/** Reads variables from the environment; each wrong one adds a line to `mistakes`. */
export function readVariables<V extends Variables>(
  variables: V,
  environment: Environment,
  mistakes: string[],
): VariableValues<V> {
  const values = Object.entries(variables).map(([key, { name, fallback, expected, refusesBlank, read }]) => {
    const given = environment[name]?.trim() ?? '';
    if (given === '') {
      if (refusesBlank && environment[name] !== undefined)
        mistakes.push(`${name} is blank. Set it to ${expected}, or unset it.`);
      return [key, fallback];
    }
    try {
      const value = read(given);
      if (value === undefined) mistakes.push(`${name} must be ${expected}`);
      return [key, value ?? fallback];
    } catch (cause) {
      if (!(cause instanceof UserError)) throw cause;
      mistakes.push(`${name}: ${cause.message}`);
      return [key, fallback];
    }
  });
  return Object.fromEntries(values) as VariableValues<V>;
}
