const { NodeApiError, NodeConnectionTypes } = require('n8n-workflow');
const { ResponseError, isAuthentic, parse, send } = require('./api.js');
const { triggerProperties } = require('./properties.js');

/** @typedef {import('n8n-workflow').IDataObject} IDataObject */
/** @typedef {import('n8n-workflow').IHookFunctions} IHookFunctions */
/** @typedef {import('n8n-workflow').INodeType} INodeType */
/** @typedef {import('n8n-workflow').INodeTypeDescription} INodeTypeDescription */
/** @typedef {import('n8n-workflow').IWebhookFunctions} IWebhookFunctions */
/** @typedef {import('n8n-workflow').IWebhookResponseData} IWebhookResponseData */
/** @typedef {import('n8n-workflow').JsonObject} JsonObject */

const path = '/events/subscriptions';

/**
 * Sends a request, and reports error responses with their hints.
 * @param {IHookFunctions} context
 * @param {Parameters<typeof send>[1]} request
 * @param {number[]} [expected] statuses for which undefined is returned
 */
async function call(context, request, expected = []) {
  try {
    return (await send(context, request)).json;
  } catch (error) {
    if (!(error instanceof ResponseError)) {
      const response = /** @type {JsonObject} */ (error);
      throw new NodeApiError(context.getNode(), response);
    }
    const { message, description, status, response } = error;
    if (expected.includes(status)) return undefined;
    throw new NodeApiError(context.getNode(), response, { message, description, httpCode: String(status) });
  }
}

/** @implements {INodeType} */
class $NameTrigger {
  /** @type {INodeTypeDescription} */
  description = {
    displayName: '$title Trigger',
    name: '$nameTrigger',
    icon: { light: 'file:../../icons/icon.svg', dark: 'file:../../icons/icon.dark.svg' },
    group: ['trigger'],
    version: 1,
    subtitle: '={{$parameter["resources"].join(", ")}}',
    description: 'Starts the workflow when records of $title change',
    defaults: { name: '$title Trigger' },
    inputs: [],
    outputs: [NodeConnectionTypes.Main],
    credentials: [{ name: '$nameApi', required: true }],
    webhooks: [
      { name: 'default', httpMethod: 'POST', responseMode: 'onReceived', path: 'webhook', rawBody: true },
    ],
    properties: triggerProperties,
  };

  webhookMethods = {
    default: {
      /** @this {IHookFunctions} */
      async checkExists() {
        const data = this.getWorkflowStaticData('node');
        if (data.subscriptionId === undefined) return false;
        const request = { path: `${path}/${data.subscriptionId}` };
        const subscription = await call(this, request, [404]);
        if (subscription?.state === 'on' && subscription.url === this.getNodeWebhookUrl('default'))
          return true;
        await call(this, { ...request, method: 'DELETE' }, [404]);
        delete data.subscriptionId;
        delete data.secret;
        return false;
      },
      /** @this {IHookFunctions} */
      async create() {
        const filter = this.getNodeParameter('filter', '');
        const body = {
          url: this.getNodeWebhookUrl('default'),
          resources: this.getNodeParameter('resources'),
          actions: this.getNodeParameter('actions'),
          ...(filter !== '' && { filter, filter_when: this.getNodeParameter('filterWhen') }),
        };
        const subscription = await call(this, { method: 'POST', path, body });
        const data = this.getWorkflowStaticData('node');
        data.subscriptionId = subscription?.id;
        data.secret = subscription?.secret;
        return true;
      },
      /** @this {IHookFunctions} */
      async delete() {
        const data = this.getWorkflowStaticData('node');
        if (data.subscriptionId === undefined) return true;
        await call(this, { method: 'DELETE', path: `${path}/${data.subscriptionId}` }, [404]);
        delete data.subscriptionId;
        delete data.secret;
        return true;
      },
    },
  };

  /**
   * @this {IWebhookFunctions}
   * @returns {Promise<IWebhookResponseData>}
   */
  async webhook() {
    const { secret } = this.getWorkflowStaticData('node');
    const headers = this.getHeaderData();
    const { rawBody: body } = this.getRequestObject();
    if (typeof secret !== 'string' || !isAuthentic({ secret, headers, body })) {
      this.getResponseObject().status(401).json({ error: 'Invalid signature' });
      return { noWebhookResponse: true };
    }
    const event = parse(body.toString());
    // Sent by an administrator to test the connection.
    if (event.type === 'test') return {};
    const json = /** @type {IDataObject} */ ({ ...event, id: headers['webhook-id'] });
    return { workflowData: [[{ json }]] };
  }
}

module.exports = { $NameTrigger };
