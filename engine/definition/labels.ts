import { humanize } from '../fields/index.ts';
import type { RawResource, ResourceDefinition } from './definition.ts';

/** Returns the labels in a resource file. A text is the label of the resource. */
export const readLabels = ({ label }: RawResource): ResourceDefinition['label'] =>
  typeof label === 'string' ? { many: label } : (label ?? {});

/** Returns a resource's label, for example "Lead sources". */
export const resourceLabel = ({ name, label }: Pick<ResourceDefinition, 'name' | 'label'>): string =>
  label.many ?? humanize(name);

/** Returns the label of one of a resource's records, for example "Lead source". */
export const recordLabel = ({ singular, label }: Pick<ResourceDefinition, 'singular' | 'label'>): string =>
  label.one ?? humanize(singular);
