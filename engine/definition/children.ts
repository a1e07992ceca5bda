import { type Field, linksOf, refersToMany, typeLabel } from '../fields/index.ts';
import type { Children } from '../query/index.ts';
import { suggestionOrList, type Target, withArticle } from '../yaml/index.ts';
import type { RawChildren, RawResource } from './definition.ts';
import { reservedFieldNames } from './field.ts';

/** A resource, before links between resources are checked. */
interface Resource {
  readonly name: string;
  readonly fields: readonly Field[];
  readonly isRetired: boolean;
}

/** The resource that has the children, and all resources. */
interface Context {
  readonly name: string;
  /** The resource's fields, keyed by name. */
  readonly fields: ReadonlyMap<string, Field>;
  readonly resources: readonly Resource[];
  /** Returns whether the issues of an invalid resource have already been reported. */
  readonly isBroken: (resource: string) => boolean;
  readonly report: (target: Target, message: string) => void;
}

/** Returns the resource's named lists of referring records, and reports invalid ones. */
export function readChildren({ children = {} }: RawResource, context: Context): Children[] {
  const { name: parent, fields, resources, isBroken, report } = context;
  const result: Children[] = [];
  for (const [name, raw] of Object.entries(children)) {
    const path = ['children', name];
    if (fields.has(name))
      report({ path, key: true }, `"${name}" is a field of this resource. Choose another name for the list.`);
    if (reservedFieldNames.has(name))
      report({ path, key: true }, `"${name}" is a reserved name. Choose another name.`);
    if (isBroken(raw.of)) continue;
    const child = resources.find((resource) => resource.name === raw.of);
    if (child === undefined) {
      const names = resources.map((resource) => resource.name);
      report({ path: [...path, 'of'] }, `unknown resource "${raw.of}"${suggestionOrList(raw.of, names)}`);
      continue;
    }
    if (child.isRetired) report({ path: [...path, 'of'] }, `${raw.of} is retired. Remove the list.`);
    const reference = findReference(child, raw.by, parent, 'a list of children');
    if (typeof reference === 'string') {
      report({ path: [...path, 'by'] }, reference);
      continue;
    }
    const other = result.find(({ of, by }) => of === raw.of && by === raw.by);
    if (other !== undefined) {
      const message = `"${other.name}" already contains the ${raw.of} with this reference`;
      report({ path: [...path, 'by'] }, message);
    }
    if (raw.writable === true && reference.readOnly) {
      report(
        { path: [...path, 'writable'] },
        `"${raw.by}" of ${raw.of} is read-only, so the list cannot be writable`,
      );
    }
    const order = readOrder(raw, child, (message) => report({ path: [...path, 'sort'] }, message));
    result.push({
      name,
      of: raw.of,
      by: raw.by,
      ...(order && { order }),
      isWritable: raw.writable === true,
    });
  }
  for (const { name, of } of result) {
    // The list of another resource would have the same name.
    const isNamed = (field: Field) => result.some((item) => item.of === name && item.by === field.name);
    const other = resources.find((resource) => resource.name === name && name !== of);
    if (other?.fields.flatMap(linksOf).some((link) => link.to === parent && !isNamed(link)) === true) {
      const message = `"${name}" is also the name of a resource that refers to ${parent}. Choose another name.`;
      report({ path: ['children', name], key: true }, message);
    }
  }
  return result;
}

/**
 * Returns the field through which a resource's records refer to a parent, or the reason it cannot be used.
 * @param use completes "cannot be used for …"
 */
export function findReference(
  { name: resource, fields }: Pick<Resource, 'name' | 'fields'>,
  by: string,
  parent: string,
  use: string,
): Field | string {
  const reference = fields.find((field) => field.name === by);
  if (reference?.alternatives !== undefined)
    return `"${by}" of ${resource} refers to one of several resources, so it cannot be used for ${use}`;
  if (reference?.to === parent && !refersToMany(reference)) return reference;
  const references = fields
    .filter((field) => field.to === parent && !refersToMany(field))
    .map((field) => field.name);
  return `"${by}" is not a reference from ${resource} to ${parent}${suggestionOrList(by, references)}`;
}

/** Returns the order of the list, or undefined for the default order. */
function readOrder(
  { of, sort }: RawChildren,
  { fields }: Resource,
  report: (message: string) => void,
): Children['order'] {
  if (sort === undefined) return undefined;
  const { by, direction = 'asc' } = typeof sort === 'string' ? { by: sort } : sort;
  const field = fields.find((candidate) => candidate.name === by);
  if (field === undefined) {
    const names = fields.filter(({ type }) => type.order !== undefined).map(({ name }) => name);
    report(`unknown field "${by}" of ${of}${suggestionOrList(by, names)}`);
    return undefined;
  }
  if (field.type.order === undefined) {
    report(`cannot sort by ${withArticle(typeLabel(field))} field`);
    return undefined;
  }
  if (field.group !== undefined) {
    report(`"${by}" of ${of} belongs to the group "${field.group}", so the list cannot be ordered by it`);
  }
  return { field, direction };
}
