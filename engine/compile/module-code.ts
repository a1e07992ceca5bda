import type { ResourceDefinition } from '../definition/index.ts';
import { changeLog, type Effect } from '../effects/index.ts';
import { UserError } from '../errors.ts';
import { schemaIssue } from '../fields/index.ts';
import {
  acceptsEmptyBody,
  type InstanceHooks,
  isAction,
  jobsPath,
  type ModuleCode,
  type OperationContext,
} from '../records/index.ts';
import { suggestionOrList } from '../yaml/index.ts';

/** Name of the jobs in the API. */
const jobsName = jobsPath.slice(1);

const actionNamePattern = /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/;

/** Checks the hooks and actions of modules. @throws UserError with one line per issue */
export function checkModuleCode(
  modules: readonly ModuleCode[],
  definitions: readonly ResourceDefinition[],
  effects: readonly Effect[],
): void {
  const issues: string[] = [];
  const names = definitions.filter(({ isRetired }) => !isRetired).map(({ name }) => name);
  const owners = new Map<string, string>();
  for (const { name: module, hooks = {}, actions = {} } of modules) {
    const place = `module ${module}`;
    for (const [key, resources] of Object.entries({ hooks, actions }))
      for (const resource of Object.keys(resources))
        if (!names.includes(resource))
          issues.push(
            `${place}: ${key}.${resource}: the instance does not have this resource${suggestionOrList(resource, names)}`,
          );
    for (const [resource, ofResource] of Object.entries(actions))
      for (const [name, action] of Object.entries(ofResource)) {
        const { input, output, permission, job, ofCollection, schedule } = action;
        const location = `${place}: actions.${resource}.${name}`;
        if (job && definitions.some((definition) => definition.name === jobsName))
          issues.push(
            `${location}.job: the instance has a resource named "${jobsName}", whose path jobs need`,
          );
        if (schedule !== undefined && !(job && ofCollection && acceptsEmptyBody(action)))
          issues.push(
            `${location}.schedule: only a job of the collection that needs no input can have a schedule`,
          );
        if (!actionNamePattern.test(name))
          issues.push(`${location}: the name must consist of lower-case letters, digits and single hyphens`);
        if (permission === 'own' && isAction(name))
          issues.push(
            `${location}: an action with a grant of its own cannot have the name of an action of the API`,
          );
        const owner = owners.get(`${resource} ${name}`);
        if (owner !== undefined) issues.push(`${location}: the module ${owner} already has this action`);
        owners.set(`${resource} ${name}`, module);
        for (const [key, schema] of Object.entries({ input, output })) {
          const issue = schema && schemaIssue(schema);
          if (issue !== undefined) issues.push(`${location}.${key}: the schema is invalid: ${issue}`);
        }
      }
    const needsChangeLog =
      Object.values(actions).some((all) => Object.keys(all).length > 0) ||
      Object.values(hooks).some(
        ({ afterWrite, afterWrites, afterCommit }) => afterWrite ?? afterWrites ?? afterCommit,
      );
    if (needsChangeLog && !effects.includes(changeLog))
      issues.push(
        `${place}: its hooks after writes, and its actions, need the change log. Remove AUDIT=false`,
      );
  }
  if (issues.length > 0) throw new UserError(issues.join('\n'));
}

/** Returns the hooks of modules by resource, in the order of the modules. */
export const hooksByResource = (modules: readonly ModuleCode[]): InstanceHooks['byResource'] =>
  Map.groupBy(
    modules.flatMap(({ name: module, hooks = {} }) =>
      Object.entries(hooks).map(([resource, own]) => ({ resource, module, hooks: own })),
    ),
    ({ resource }) => resource,
  );

/** Returns the names of the resources with hooks after writes. */
export const observedResources = (hooks: InstanceHooks['byResource']): readonly string[] =>
  [...hooks].flatMap(([name, all]) =>
    all.some(({ hooks: { afterWrite, afterWrites } }) => (afterWrite ?? afterWrites) !== undefined)
      ? [name]
      : [],
  );

/**
 * Returns the resources whose writes can cause hooks after a write: those with hooks, and those to which such records refer, directly
 * or through other records.
 */
export function afterResources(
  definitions: readonly ResourceDefinition[],
  referrers: OperationContext['referrers'],
  hooks: InstanceHooks['byResource'],
): ReadonlySet<string> {
  if (observedResources(hooks).length === 0) return new Set();
  // Hooks before writes can write other records, after which hooks run.
  const result = new Set(hooks.keys());
  for (let size = -1; size !== result.size; ) {
    size = result.size;
    // Records that requests can contain as children refer to their parent, too.
    for (const { name } of definitions)
      if (referrers.get(name)?.some(({ resource }) => result.has(resource))) result.add(name);
  }
  return result;
}
