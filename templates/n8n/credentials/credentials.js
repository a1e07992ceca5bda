/** @typedef {import('n8n-workflow').IAuthenticateGeneric} IAuthenticateGeneric */
/** @typedef {import('n8n-workflow').ICredentialTestRequest} ICredentialTestRequest */
/** @typedef {import('n8n-workflow').ICredentialType} ICredentialType */
/** @typedef {import('n8n-workflow').INodeProperties} INodeProperties */
/** @typedef {import('n8n-workflow').Icon} Icon */

/** @implements {ICredentialType} */
class $NameApi {
  name = '$nameApi';

  displayName = '$title API';

  /** @type {Icon} */
  icon = { light: 'file:../icons/icon.svg', dark: 'file:../icons/icon.dark.svg' };

  documentationUrl = 'https://www.npmjs.com/package/$package';

  /** @type {INodeProperties[]} */
  properties = [
    {
      displayName: 'URL',
      name: 'url',
      type: 'string',
      default: '',
      placeholder: 'https://crm.example.com',
      description: 'URL of the instance',
      required: true,
    },
    {
      displayName: 'API Key',
      name: 'apiKey',
      type: 'string',
      typeOptions: { password: true },
      default: '',
      description: 'API key of an organization, whose profile limits what workflows can do',
      required: true,
    },
  ];

  /** @type {IAuthenticateGeneric} */
  authenticate = {
    type: 'generic',
    properties: { headers: { Authorization: '=Bearer {{$credentials.apiKey}}' } },
  };

  /** @type {ICredentialTestRequest} */
  test = { request: { baseURL: '={{$credentials.url.replace(/\\/+$/, "")}}', url: '/auth/me' } };
}

module.exports = { $NameApi };
