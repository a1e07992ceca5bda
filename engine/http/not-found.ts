import { errors, type HttpError } from '../errors.ts';
import { suggestion } from '../yaml/index.ts';
import { apiPrefix } from './openapi.ts';

/** Names of a resource in URLs. */
export interface NamedResource {
  readonly name: string;
  readonly definition: { readonly singular: string };
}

/** Returns the error for a URL without a route. It names only resources of the public description. */
export type NotFound = (url: string) => HttpError;

/** Maximum length of a path segment that is compared with names. */
const maxCompared = 60;

/** Creates the error for unknown URLs. @param resources resources of the instance */
export function createNotFound(resources: readonly NamedResource[]): NotFound {
  const names = resources.map(({ name }) => name);
  const all = `${apiPrefix} has ${names.join(', ')}`;
  return (url) => {
    const path = url.split('?', 1)[0] ?? '';
    const isApi = path === apiPrefix || path.startsWith(`${apiPrefix}/`);
    const words = path
      .slice(isApi ? apiPrefix.length : 0)
      .split('/')
      .slice(1, 10);
    const [first = '', id, ...deeper] = words;
    if (!isApi) {
      const meant = names.find((name) => words.some((word) => word.toLowerCase() === name));
      return errors.pathNotFound(
        meant === undefined ? `; the API is under ${apiPrefix}` : `. Did you mean "${apiPrefix}/${meant}"?`,
      );
    }
    const known = resources.find(({ name }) => name === first);
    if (known === undefined)
      return errors.pathNotFound(`; ${all}${suggestion(first.slice(0, maxCompared), names)}`);
    // An ID that cannot be decoded.
    const isRecord = id !== undefined && id !== '' && deeper.length === 0;
    return isRecord ? errors.recordNotFound(known.definition.singular) : errors.pathNotFound(`; ${all}`);
  };
}
