import type { EntitySchema } from '@mikro-orm/core';
import { LRUCache } from 'lru-cache';
import type { ResourceDefinition } from '../definition/index.ts';
import type { Effect } from '../effects/index.ts';
import { linksOf, refersToMany } from '../fields/index.ts';
import {
  actionsOfResource,
  bodyRules,
  type CompiledAction,
  type CompiledOperations,
  type CompiledUploads,
  compileAction,
  compileOperations,
  compileUploads,
  fullView,
  type Grants,
  type HookView,
  hasLimits,
  hookView,
  type InstanceHooks,
  itemTable,
  limitedView,
  type ModuleAction,
  type ModuleCode,
  type OperationContext,
  projection,
  type Referrer,
  systemContext,
  type View,
  writableLists,
} from '../records/index.ts';
import { buildEntity } from './entity.ts';
import { linkEntities } from './links.ts';
import { afterResources, checkModuleCode, hooksByResource, observedResources } from './module-code.ts';
import { type AddedResponses, type Fragment, openApiFragment } from './openapi.ts';

/** The operations on a resource for callers with the same rights, and what these callers see of the resource. */
export interface ResourceView {
  readonly name: string;
  /** The definition without the fields that the callers cannot read. */
  readonly definition: ResourceDefinition;
  /** Context from which the operations were compiled. */
  readonly context: OperationContext;
  readonly operations: CompiledOperations;
  readonly uploads: CompiledUploads;
  /** The actions that modules add. */
  readonly actions: readonly ModuleAction[];
  /** Returns a module's action, compiled for these callers. Throws if it does not exist. */
  readonly actionNamed: (module: string, name: string) => CompiledAction;
}

/** A compiled resource with everything needed to handle its requests, computed once at startup. */
export interface Resource extends ResourceView {
  readonly entity: EntitySchema;
  /** Link tables of the resource's references fields. */
  readonly linkEntities: readonly EntitySchema[];
  /** OpenAPI description of the resource. */
  readonly openApi: Fragment;
  /**
   * Returns the view of callers with these grants. It is the resource itself if the grants do not limit the fields or
   * records of any resource. Other views are compiled on first use.
   */
  readonly viewFor: (grants: Grants) => ResourceView;
  /** Returns the view of modules with system access, which is compiled on first use. */
  readonly systemView: () => ResourceView;
}

/** Maximum number of compiled views of resources. The least recently used view is evicted. */
const maxViews = 200;
/** Maximum number of sets of rights whose views of all resources are kept while they are compiled one by one. */
const maxContexts = 50;

/**
 * Compiles checked definitions. Every referenced resource must be among the definitions.
 * @param prefix base path of the API, for the OpenAPI description
 * @param effects effects that run with every write
 * @param added responses that modules add to every operation, for the OpenAPI description
 * @param modules the instance's modules, of which only hooks and actions are used
 * @throws UserError if the hooks or actions are invalid
 */
export function compileResource(
  definitions: readonly ResourceDefinition[],
  prefix: string,
  effects: readonly Effect[],
  added: readonly AddedResponses[] = [],
  modules: readonly ModuleCode[] = [],
): readonly Resource[] {
  checkModuleCode(modules, definitions, effects);
  const referrers = new Map(definitions.map(({ name }) => [name, referrersOf(name, definitions)]));
  const resourceNamed = (name: string): Resource => {
    const resource = resources.find((candidate) => candidate.name === name);
    if (resource === undefined || resource.definition.isRetired)
      throw new Error(`this instance does not have the resource ${name}`);
    return resource;
  };
  const hooks = hooksByResource(modules);
  const systemViews = new Map<string, HookView>();
  const instance: CompiledInstance = {
    definitions,
    prefix,
    effects,
    referrers,
    actionsOf: new Map(definitions.map(({ name }) => [name, actionsOfResource(modules, name)])),
    hooks: {
      observer: {},
      byResource: hooks,
      observedResources: observedResources(hooks),
      afterResources: afterResources(definitions, referrers, hooks),
      fullContext: (name) => contextOf(name),
      view: (name, grants) => asHookView(resourceNamed(name).viewFor(grants)),
      systemView: (name) => {
        const view = systemViews.get(name) ?? asHookView(resourceNamed(name).systemView());
        systemViews.set(name, view);
        return view;
      },
    },
  };
  const contextOf = contextsOf(fullView(definitions), instance);
  const viewFor = viewCache(instance);
  const resources = Object.freeze(
    definitions.map((definition): Resource => {
      const actions = instance.actionsOf.get(definition.name) ?? [];
      const base = compileView(contextOf(definition.name), actions);
      let system: ResourceView | undefined;
      return Object.freeze({
        ...base,
        entity: buildEntity(definition, definitions),
        linkEntities: linkEntities(definition),
        openApi: openApiFragment(definition, {
          definitions,
          referrers,
          prefix,
          added,
          hasHooks: hooks.size > 0,
          actions,
        }),
        viewFor: (grants: Grants) => viewFor(definition.name, grants) ?? base,
        systemView: () => {
          system ??= compileView(systemContext(base.context), []);
          return system;
        },
      });
    }),
  );
  return resources;
}

/**
 * Compiles a view. Its operations are compiled on first use, because many callers of {@link Resource.viewFor} need only the
 * definition or the context.
 */
function compileView(context: OperationContext, actions: readonly ModuleAction[]): ResourceView {
  const { definition } = context;
  let operations: CompiledOperations | undefined;
  let uploads: CompiledUploads | undefined;
  const compiledActions = new Map<ModuleAction, CompiledAction>();
  return Object.freeze({
    name: definition.name,
    definition,
    context,
    actions,
    get operations() {
      operations ??= compileOperations(context);
      return operations;
    },
    get uploads() {
      uploads ??= compileUploads(context, this.operations);
      return uploads;
    },
    actionNamed: (module: string, name: string) => {
      const action = actions.find((candidate) => candidate.module === module && candidate.name === name);
      if (action === undefined) throw new Error(`${definition.name} does not have the action ${name}`);
      const compiled = compiledActions.get(action) ?? compileAction(context, action);
      compiledActions.set(action, compiled);
      return compiled;
    },
  });
}

const asHookView = (view: ResourceView): HookView => hookView(view.context, () => view.operations);

/** Properties of the instance that every view of its resources depends on. */
interface CompiledInstance {
  readonly definitions: readonly ResourceDefinition[];
  /** Base path of the API. */
  readonly prefix: string;
  readonly effects: readonly Effect[];
  readonly referrers: OperationContext['referrers'];
  readonly hooks: InstanceHooks;
  /** The actions of modules, by resource. */
  readonly actionsOf: ReadonlyMap<string, readonly ModuleAction[]>;
}

/** Returns a function that compiles the context of one of a view's resources. */
function contextsOf(
  view: View,
  { prefix, effects, referrers, hooks }: CompiledInstance,
): (name: string) => OperationContext {
  const resources = new Map(
    [...view.resources].map(([name, resource]) => [
      name,
      { ...resource, path: `${prefix}/${name}`, projection: projection(resource, view.resources) },
    ]),
  );
  const contextOf = (name: string): OperationContext => {
    const resource = resources.get(name);
    if (resource === undefined) throw new Error(`Unknown resource ${name}`);
    const { definition, stored } = resource;
    return {
      ...resource,
      view: view.key,
      resources,
      body: bodyRules(definition.fields, stored.fields, false, writableLists(definition)),
      items: itemTable(
        stored.fields.filter(({ readOnly }) => !readOnly),
        stored.uniques,
      ),
      effects,
      referrers,
      hooks,
      contextOf,
    };
  };
  return contextOf;
}

/**
 * Returns a function that returns the view of a resource for callers with these grants, or undefined if nothing is
 * limited.
 */
function viewCache(instance: CompiledInstance): (name: string, grants: Grants) => ResourceView | undefined {
  const { definitions } = instance;
  if (!hasLimits(definitions)) return () => undefined;
  const views = new WeakMap<Grants, View>();
  const contexts = new LRUCache<string, (name: string) => OperationContext>({ max: maxContexts });
  const contextOf = (view: View, name: string): OperationContext => {
    const contextOfView = contexts.get(view.key) ?? contextsOf(view, instance);
    contexts.set(view.key, contextOfView);
    return contextOfView(name);
  };
  const compiled = new LRUCache<string, ResourceView>({ max: maxViews });
  return (name, grants) => {
    let view = views.get(grants);
    if (view === undefined) {
      view = limitedView(definitions, grants);
      views.set(grants, view);
    }
    if (view.key === '') return undefined;
    const key = `${view.key} ${name}`;
    let resource = compiled.get(key);
    if (resource === undefined) {
      resource = compileView(contextOf(view, name), instance.actionsOf.get(name) ?? []);
      compiled.set(key, resource);
    }
    return resource;
  };
}

/** Returns the references that point to a resource. Includes retired fields, because their foreign keys still exist. */
const referrersOf = (target: string, definitions: readonly ResourceDefinition[]): readonly Referrer[] =>
  definitions.flatMap(({ name, fields, retired, trash }) =>
    [
      ...fields.map((field) => ({ field, onDelete: field.onDelete ?? 'clear' })),
      ...retired.map((field) => ({ field, onDelete: 'clear' as const })),
    ].flatMap(({ field, onDelete }) =>
      linksOf(field)
        .filter(({ to }) => to === target)
        .map((link) => ({
          resource: name,
          field: field.name,
          column: link.name,
          onDelete,
          isList: refersToMany(link),
          hasTrash: trash !== undefined,
        })),
    ),
  );
