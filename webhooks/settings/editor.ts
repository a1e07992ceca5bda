import type { JsonSchema } from '../../engine/fields/index.ts';
import { hasKey, implies } from '../../engine/yaml/index.ts';
import { shortestSecret } from './load.ts';
import schema from './settings.schema.json' with { type: 'json' };
import { defaults } from './settings.ts';

const { payment, sender, secrets } = schema.$defs;

/** A secret that is written in the file is long enough; one that comes from the environment is checked at start. */
const secret = {
  type: 'string',
  pattern: `^(?:[\\s\\S]*\\$\\{[\\s\\S]*|\\s*(?:\\S[\\s\\S]{${shortestSecret - 2},}\\S)?\\s*)$`,
};

/** The JSON Schema of config.yaml for editors: with the defaults, and with what keys need of one another. */
export const settingsEditorSchema: JsonSchema = {
  ...schema,
  properties: withDefaults(schema.properties, defaults),
  $defs: {
    ...schema.$defs,
    secrets: { ...secrets, items: secret },
    payment: {
      ...payment,
      required: [...payment.required, 'lead'],
      properties: {
        ...payment.properties,
        organization: { ...payment.properties.organization, minLength: 1 },
        lead: { ...payment.properties.lead, minProperties: 1 },
      },
    },
    sender: {
      ...sender,
      allOf: [implies(hasKey('sender', 'whatsapp_cloud'), { required: ['phone_number_id', 'access_token'] })],
    },
  },
};

/** Properties with the default of each that has one. */
function withDefaults(properties: JsonSchema, values: object): JsonSchema {
  const known = new Map<string, unknown>(Object.entries(values));
  return Object.fromEntries(
    Object.entries(properties).map(([name, property]) => {
      const value = known.get(name);
      const { properties: below } = property as { readonly properties?: JsonSchema };
      if (below !== undefined && typeof value === 'object' && value !== null) {
        return [name, { ...(property as JsonSchema), properties: withDefaults(below, value) }];
      }
      return [name, value === undefined ? property : { ...(property as JsonSchema), default: value }];
    }),
  );
}
