import type { ResourceDefinition } from '../definition/index.ts';
import { type Field, linksOf } from '../fields/index.ts';

/**
 * Sorts resources so that each resource follows the resources that its required references point to and, as far as
 * possible, the resources that its other references point to.
 */
export const sortByReferences = <R extends { readonly definition: ResourceDefinition }>(
  resources: readonly R[],
): R[] =>
  followTargets(
    followTargets(resources, () => true),
    ({ required }) => required,
  );

/** Sorts resources so that, as far as possible, they follow the targets of the references that `follows` accepts. */
function followTargets<R extends { readonly definition: ResourceDefinition }>(
  resources: readonly R[],
  follows: (reference: Field) => boolean,
): R[] {
  const sorted = new Set<R>();
  const visiting = new Set<R>();
  const visit = (resource: R) => {
    if (sorted.has(resource) || visiting.has(resource)) return;
    visiting.add(resource);
    for (const field of resource.definition.fields.filter(follows)) {
      for (const { to } of linksOf(field)) {
        const target = resources.find(({ definition }) => definition.name === to);
        if (target !== undefined) visit(target);
      }
    }
    sorted.add(resource);
  };
  for (const resource of resources) visit(resource);
  return [...sorted];
}
