import type { EntitySchema } from '@mikro-orm/core';
import type { FastifyInstance } from 'fastify';
import type { AddedResponses, Fragment } from '../compile/index.ts';
import type { Variables } from '../config/index.ts';
import type { FieldRequirements, ResourceDefinition } from '../definition/index.ts';
import type { JsonSchema } from '../fields/index.ts';
import type { ModuleAction, ModuleCode } from '../records/index.ts';
import type { CommandLine } from './command-line.ts';

/** A part of an instance that a `crm doctor` check can use. */
export type DoctorSubject = 'config' | 'settings' | 'settingsFile' | 'resources' | 'database' | 'secrets';

/** A problem or a probably unintended setting, and how to fix it. */
export interface Finding {
  /** Location of the problem: a variable, a line in a file, a folder, a table or an organization. */
  readonly location: string;
  /** Description of the problem, without a full stop. */
  readonly message: string;
  /** A sentence that explains how to fix the problem. */
  readonly advice: string;
  /** Set if everything works but the setting is probably unintended. */
  readonly isNote?: true;
}

/**
 * A check for `crm doctor`. It must not change records or settings.
 * @typeParam Subject the parts of the instance that the check needs
 */
export interface DoctorCheck<Subject = unknown> {
  /** Short name for the subject of the check, for example "time". */
  readonly name: string;
  /** Parts passed to the check. The check is skipped if any part is unavailable. */
  readonly needs: readonly DoctorSubject[];
  readonly run: (subject: Subject) => readonly Finding[] | Promise<readonly Finding[]>;
}

/** A metric family, as defined by Prometheus. */
export interface Family {
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
}

/** A module's metrics. */
export interface Metrics {
  /** Families, keyed by name. Several modules can report values for the same family if the labels differ. */
  readonly families: Readonly<Record<string, Family>>;
  /**
   * Whether the metrics describe the whole instance and are therefore reported by a single process.
   * Otherwise, the values from all processes are added up.
   */
  readonly ofInstance: boolean;
  /** Reports the current values. If the function throws, the values are omitted. */
  readonly read: (report: ReportValue) => void | Promise<void>;
}

/**
 * Reports a value for a family.
 * @param labels must have few distinct values. Caller input, organization names and organization IDs are not
 * allowed
 * @param sample which value of a histogram it is: the number of observations up to the label `le`, their sum or their number
 */
type ReportValue = (
  name: string,
  value: number,
  labels?: Readonly<Record<string, string>>,
  sample?: 'bucket' | 'sum' | 'count',
) => unknown;

/**
 * Rules for a module's section in config.yaml: a JSON Schema for its text, or a function that receives its value, or an empty
 * object if it is missing, and returns the settings. An error thrown by the function is reported at the section.
 */
export type SectionRules = JsonSchema | ((section: unknown) => unknown);

/** What the description of a module's routes can depend on, in addition to the instance's resources. */
export interface DescribedCode {
  /** Whether hooks of modules can reject writes of records. */
  readonly hasHooks: boolean;
  /** The actions of all resources. */
  readonly actions: readonly ModuleAction[];
}

/**
 * A part of an instance, other than its records, with its own folder.
 * @typeParam Services the parts of a running service that the module needs
 * @typeParam Instance the parts of an open instance that its commands need
 * @typeParam Checked the parts of a possibly broken instance that its checks need
 * @typeParam Config the variables that its responses depend on
 */
export interface Module<Services = unknown, Instance = unknown, Checked = unknown, Config = unknown>
  extends ModuleCode {
  /** Name of the module's folder. */
  readonly name: string;
  /** The module's tables. Their names start with `crm_`. */
  readonly tables?: readonly EntitySchema[];
  /** The module's environment variables. */
  readonly variables?: Variables;
  /** Rules for the module's section in config.yaml, whose key is the module's name. */
  readonly settings?: SectionRules;
  /** OpenAPI fragment for the module's routes, or a function that returns it for the instance's resources. */
  readonly openApi?:
    | Fragment
    | ((definitions: readonly ResourceDefinition[], instance: DescribedCode) => Fragment);
  /** Headers and errors that the module adds to operations on records, for the OpenAPI document and CORS. */
  readonly responses?: AddedResponses & {
    /** Returns whether the module is enabled and the document includes these headers and errors. */
    readonly isEnabled: (config: Config) => boolean;
  };
  /**
   * Resource fields that the module accesses by name. Their existence is checked at startup. A module that needs a retired
   * resource is not served, see {@link isServed}.
   */
  readonly needs?: readonly FieldRequirements[];
  /** Whether the module is served even if a resource that it needs is retired, without the parts that need the resource. */
  readonly isDivisible?: true;
  /** Adds the module's Fastify hooks, decorators and routes. */
  readonly register?: (app: FastifyInstance, services: Services) => void | Promise<void>;
  /** Adds the module's pages to the admin UI. */
  readonly pages?: (screens: FastifyInstance, services: Services) => void;
  /** The module's metrics. */
  readonly metrics?: (services: Services) => readonly Metrics[];
  /** Adds the module's commands. Their code is imported lazily, because the service does not need it. */
  readonly commands?: (line: CommandLine<Instance>) => void | Promise<void>;
  /** The module's checks for `crm doctor`. */
  readonly checks?: readonly DoctorCheck<Checked>[];
}

/**
 * Returns whether an instance serves a module: its routes, pages, metrics and description. Its tables and commands always exist.
 * @param retired the retired resources
 */
export const isServed = (
  { needs = [], isDivisible }: Pick<Module, 'needs' | 'isDivisible'>,
  retired: readonly { readonly name: string }[],
): boolean =>
  isDivisible === true || !needs.some(({ resource }) => retired.some(({ name }) => name === resource));
