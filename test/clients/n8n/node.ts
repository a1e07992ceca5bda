// Runs the nodes of a package with n8n's own functions for parameters and errors. Only the parts of n8n's server that nodes
// call are replaced: requests are sent with fetch, and the trigger's webhook is an HTTP server on loopback.
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type {
  ICredentialType,
  IDataObject,
  IExecuteFunctions,
  IHookFunctions,
  IHttpRequestOptions,
  INode,
  INodeExecutionData,
  INodeParameters,
  INodeType,
  IWebhookFunctions,
} from 'n8n-workflow';

// Its ES modules import files without extensions, which Node.js does not support.
const { NodeHelpers } = createRequire(import.meta.url)('n8n-workflow') as typeof import('n8n-workflow');

/** Connection of the nodes to an instance. */
interface Connection {
  /** URL of the instance, as a user enters it. */
  readonly url: string;
  readonly key: string;
}

/** Response of the trigger to a request. */
interface Sent {
  readonly status: number;
  /** Items with which the workflow starts. */
  readonly items: readonly IDataObject[];
}

/** A package's nodes. */
export interface RunningNodes {
  /** Sends the credential's test request. @returns the response's status */
  readonly testCredential: () => Promise<number>;
  /** Executes the node for items with these parameters. @returns the node's output */
  readonly execute: (
    items: readonly INodeParameters[],
    options?: { readonly continueOnFail?: boolean },
  ) => Promise<readonly INodeExecutionData[]>;
  /** Activates the trigger, which then receives events. @returns its state */
  readonly activate: (parameters: INodeParameters, webhook: Webhook) => Promise<ActiveTrigger>;
}

/** An HTTP server that receives a trigger's events. */
export interface Webhook {
  readonly port: number;
  readonly url: string;
  /** Sets the function that responds to requests. */
  readonly receive: (respond: (incoming: IncomingMessage, response: ServerResponse) => Promise<void>) => void;
  readonly close: () => Promise<void>;
}

/** An active trigger. */
export interface ActiveTrigger {
  /** Data that n8n stores with the workflow. */
  readonly stored: IDataObject;
  /** Responses to the requests received so far. */
  readonly sent: readonly Sent[];
  /** Headers and bodies of these requests. */
  readonly requests: readonly { readonly headers: IncomingHttpHeaders; readonly body: Buffer }[];
  /** Sends a request to the webhook as an attacker might. @returns its status */
  readonly post: (headers: Record<string, string>, body: Buffer) => Promise<number>;
  /** Activates the workflow again, for example after a restart. */
  readonly reactivate: () => Promise<void>;
  readonly deactivate: () => Promise<void>;
}

/** Starts a server on a free port. */
export async function openWebhook(): Promise<Webhook> {
  let respond = async (_: IncomingMessage, response: ServerResponse): Promise<void> => {
    response.writeHead(404).end();
  };
  const server = createServer((incoming, response) => respond(incoming, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `http://127.0.0.1:${port}/webhook`,
    receive: (next) => {
      respond = next;
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Evaluates an expression, for example `=Bearer {{$credentials.apiKey}}`. */
const evaluate = (text: string, credentials: IDataObject): string =>
  text.startsWith('=')
    ? text
        .slice(1)
        .replace(/\{\{(.*?)\}\}/g, (_, code: string) =>
          String(new Function('$credentials', `return ${code}`)(credentials)),
        )
    : text;

/**
 * Loads a package as n8n does, by the paths in its package.json.
 * @param folder folder of the package
 */
export function loadNodes(folder: string, { url, key }: Connection): RunningNodes {
  const require = createRequire(join(folder, 'package.json'));
  const { n8n } = require('./package.json') as {
    readonly n8n: { readonly nodes: readonly string[]; readonly credentials: readonly string[] };
  };
  const load = (path: string | undefined): unknown => {
    const [name = ''] = path?.split('/').at(-1)?.split('.') ?? [];
    const classes = require(`./${path}`) as Readonly<Record<string, new () => unknown>>;
    const Loaded = classes[name];
    if (Loaded === undefined) throw new Error(`${path} does not export ${name}`);
    return new Loaded();
  };
  const [node, trigger] = n8n.nodes.map(load) as [INodeType, INodeType];
  const [credential] = n8n.credentials.map(load) as [ICredentialType];
  const credentials = { url, apiKey: key };

  /** Sends a request as `httpRequestWithAuthentication` does: strings are not parsed with `encoding: 'text'`. */
  async function request(type: string, options: IHttpRequestOptions) {
    if (type !== credential.name) throw new Error(`${type} is not the name of the credential`);
    const { authenticate } = credential;
    if (authenticate === undefined || typeof authenticate === 'function') throw new Error('not generic');
    const added = Object.entries(authenticate.properties.headers ?? {});
    const response = await fetch(options.url, {
      method: options.method ?? 'GET',
      headers: {
        ...(options.headers as Record<string, string>),
        ...Object.fromEntries(added.map(([name, value]) => [name, evaluate(String(value), credentials)])),
      },
      ...(options.body !== undefined && { body: String(options.body) }),
    });
    const body = await response.text();
    if (!options.ignoreHttpStatusErrors && !response.ok) throw new Error(`${response.status} ${body}`);
    return { body, headers: Object.fromEntries(response.headers), statusCode: response.status };
  }

  /** Returns the functions that all kinds of nodes can call. */
  function common({ description }: INodeType, parameters: readonly INodeParameters[]) {
    const instance: INode = {
      id: '1',
      name: description.displayName,
      type: description.name,
      typeVersion: 1,
      position: [0, 0],
      parameters: {},
    };
    // Adds the defaults, and drops the parameters that the editor does not show.
    const resolved = parameters.map((input) =>
      NodeHelpers.getNodeParameters(description.properties, input, true, false, instance, description),
    );
    return {
      getNode: () => instance,
      getTimezone: () => 'Europe/Berlin',
      getCredentials: async () => credentials,
      helpers: { httpRequestWithAuthentication: request },
      parameter: (name: string, index: number, fallback: unknown) => {
        const value = resolved[index]?.[name] ?? fallback;
        if (value === undefined) throw new Error(`Could not get parameter ${name}`);
        return value;
      },
    };
  }

  return {
    testCredential: async () => {
      const { baseURL = '', url: path = '' } = credential.test?.request ?? {};
      const target = evaluate(baseURL, credentials) + path;
      return (await request(credential.name, { url: target, ignoreHttpStatusErrors: true })).statusCode;
    },
    execute: async (parameters, { continueOnFail = false } = {}) => {
      const { parameter, ...functions } = common(node, parameters);
      const context = {
        ...functions,
        getNodeParameter: parameter,
        getInputData: () => parameters.map(() => ({ json: {} })),
        continueOnFail: () => continueOnFail,
      };
      const output = await node.execute?.call(context as unknown as IExecuteFunctions);
      return (output as INodeExecutionData[][])[0] ?? [];
    },
    activate: async (parameters, webhook) => {
      const stored: IDataObject = {};
      const sent: Sent[] = [];
      const requests: { headers: IncomingHttpHeaders; body: Buffer }[] = [];
      const { parameter, ...functions } = common(trigger, [parameters]);
      webhook.receive(async (incoming, response) => {
        const chunks: Buffer[] = [];
        for await (const chunk of incoming) chunks.push(chunk as Buffer);
        const body = Buffer.concat(chunks);
        requests.push({ headers: incoming.headers, body });
        let status = 200;
        const context = {
          ...functions,
          getWorkflowStaticData: () => stored,
          getHeaderData: () => incoming.headers,
          getRequestObject: () => ({ rawBody: body }),
          getResponseObject: () => ({
            status: (code: number) => {
              status = code;
              return { json: (value: unknown) => response.writeHead(code).end(JSON.stringify(value)) };
            },
          }),
        };
        const result = await trigger.webhook?.call(context as unknown as IWebhookFunctions);
        const items = (result?.workflowData ?? []).flat().map(({ json }) => json);
        if (result?.noWebhookResponse !== true) response.writeHead(status).end();
        sent.push({ status, items });
      });
      const hooks = {
        ...functions,
        getNodeParameter: (name: string, fallback: unknown) => parameter(name, 0, fallback),
        getWorkflowStaticData: () => stored,
        getNodeWebhookUrl: () => webhook.url,
      } as unknown as IHookFunctions;
      const { checkExists, create, delete: remove } = trigger.webhookMethods?.default ?? {};
      const activate = async () => {
        if (!(await checkExists?.call(hooks))) await create?.call(hooks);
      };
      await activate();
      return {
        stored,
        sent,
        requests,
        post: async (headers, body) =>
          (await fetch(webhook.url, { method: 'POST', headers, body: new Uint8Array(body) })).status,
        reactivate: activate,
        deactivate: async () => {
          await remove?.call(hooks);
        },
      };
    },
  };
}
