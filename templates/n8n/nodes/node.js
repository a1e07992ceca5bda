const { NodeApiError, NodeConnectionTypes } = require('n8n-workflow');
const { ResponseError, failure, run } = require('./api.js');
const { properties } = require('./properties.js');

/** @typedef {import('n8n-workflow').IExecuteFunctions} IExecuteFunctions */
/** @typedef {import('n8n-workflow').INodeExecutionData} INodeExecutionData */
/** @typedef {import('n8n-workflow').INodeType} INodeType */
/** @typedef {import('n8n-workflow').INodeTypeDescription} INodeTypeDescription */
/** @typedef {import('n8n-workflow').JsonObject} JsonObject */

/** @implements {INodeType} */
class $Name {
  /** @type {INodeTypeDescription} */
  description = {
    displayName: '$title',
    name: '$name',
    icon: { light: 'file:../../icons/icon.svg', dark: 'file:../../icons/icon.dark.svg' },
    group: ['transform'],
    version: 1,
    subtitle: '={{$parameter["operation"] + ": " + $parameter["resource"]}}',
    description: 'Create, read, update and delete records of $title',
    defaults: { name: '$title' },
    usableAsTool: true,
    inputs: [NodeConnectionTypes.Main],
    outputs: [NodeConnectionTypes.Main],
    credentials: [{ name: '$nameApi', required: true }],
    properties,
  };

  /**
   * @this {IExecuteFunctions}
   * @returns {Promise<INodeExecutionData[][]>}
   */
  async execute() {
    const items = this.getInputData();
    /** @type {INodeExecutionData[]} */
    const results = [];
    for (let itemIndex = 0; itemIndex < items.length; itemIndex++) {
      try {
        for (const json of await run(this, itemIndex))
          results.push({ json, pairedItem: { item: itemIndex } });
      } catch (error) {
        if (this.continueOnFail()) {
          results.push({ json: failure(error), pairedItem: { item: itemIndex } });
        } else if (error instanceof ResponseError) {
          const { message, description, status, response } = error;
          const options = { message, description, httpCode: String(status), itemIndex };
          throw new NodeApiError(this.getNode(), response, options);
        } else {
          const response = /** @type {JsonObject} */ (error);
          throw new NodeApiError(this.getNode(), response, { itemIndex });
        }
      }
    }
    return [results];
  }
}

module.exports = { $Name };
