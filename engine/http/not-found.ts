import { errors, type HttpError } from '../errors.ts';
import { nearest } from '../yaml/index.ts';
import { apiPrefix } from './openapi.ts';

/** The names of a resource in URLs. */
export interface NamedResource {
  readonly name: string;
  readonly definition: { readonly singular: string };
}

/** Returns the error for a URL without a route. It contains only the names of public resources. */
export type NotFound = (url: string) => HttpError;

/** Maximum length of a path segment that is compared with resource names. */
const maxCompared = 60;

/** Returns a function that creates the errors for unknown URLs. @param resources the instance's resources */
export function createNotFound(resources: readonly NamedResource[]): NotFound {
  const names = resources.map(({ name }) => name);
  const resourceList = `${apiPrefix} has ${names.join(', ')}`;
  return (url) => {
    const path = url.split('?', 1)[0] ?? '';
    const isApi = path === apiPrefix || path.startsWith(`${apiPrefix}/`);
    const words = path
      .slice(isApi ? apiPrefix.length : 0)
      .split('/')
      .slice(1, 10);
    const [resourceName = '', id, ...rest] = words;
    if (!isApi) {
      const similarName = names.find((name) => words.some((word) => word.toLowerCase() === name));
      return similarName === undefined
        ? errors.pathNotFound(`; the API is under ${apiPrefix}`)
        : errors.pathNotFound('', `Did you mean "${apiPrefix}/${similarName}"?`);
    }
    const resource = resources.find(({ name }) => name === resourceName);
    if (resource === undefined) {
      const similarName = nearest(resourceName.slice(0, maxCompared), names);
      return errors.pathNotFound(
        `; ${resourceList}`,
        similarName === undefined ? undefined : `Did you mean "${similarName}"?`,
      );
    }
    // A record has a route, so its URL is unknown only if its ID cannot be decoded.
    const isRecord = id !== undefined && id !== '' && rest.length === 0;
    return isRecord
      ? errors.recordNotFound(resource.definition.singular)
      : errors.pathNotFound(`; ${resourceList}`);
  };
}
