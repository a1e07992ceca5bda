// The collection that Postman creates from an OpenAPI document, sent by its command-line runner, Newman.
import newman, { type NewmanRunExecution } from 'newman';
import { convertV2 } from 'openapi-to-postmanv2';

/** The response to a request of a collection. */
export interface CollectionResponse {
  readonly method: string;
  readonly path: string;
  /** Undefined if the request failed. */
  readonly status: number | undefined;
  readonly text: string;
}

/** A collection's folder or request. */
interface Item {
  readonly name: string;
  readonly item?: readonly Item[];
  readonly request?: { readonly method: string };
}

/**
 * Imports a document with Postman's settings for examples and sends the requests of some folders, in the order of the
 * collection, except that deletions are last in their folder.
 * @param url origin of the instance
 * @param key an API key
 * @param folders names of the folders, which are tags of the document
 */
export async function sendCollection(
  document: string,
  { url, key, folders }: { readonly url: string; readonly key: string; readonly folders: readonly string[] },
): Promise<readonly CollectionResponse[]> {
  const collection = await new Promise<{ readonly item: readonly Item[] }>((resolve, reject) => {
    convertV2(
      { type: 'string', data: document },
      { folderStrategy: 'Tags', parametersResolution: 'Example', enableOptionalParameters: false },
      (error, result) => {
        const [output] = result?.output ?? [];
        if (output === undefined) reject(error ?? new Error(result?.reason));
        else resolve(output.data as { readonly item: readonly Item[] });
      },
    );
  });
  const envVar = [
    { key: 'baseUrl', value: url },
    { key: 'bearerToken', value: key },
  ];
  const executions = await new Promise<readonly NewmanRunExecution[]>((resolve, reject) => {
    const item = deletionsLast(collection.item.filter(({ name }) => folders.includes(name)));
    newman.run({ collection: { ...collection, item }, envVar }, (error, { run }) =>
      error === null ? resolve(run.executions) : reject(error),
    );
  });
  return executions.map(({ request, response }) => ({
    method: request.method,
    path: request.url.getPath(),
    status: response?.code,
    text: response?.text() ?? '',
  }));
}

const deletionsLast = (items: readonly Item[]): readonly Item[] =>
  items
    .map((each) => (each.item === undefined ? each : { ...each, item: deletionsLast(each.item) }))
    .toSorted((a, b) => Number(a.request?.method === 'DELETE') - Number(b.request?.method === 'DELETE'));
