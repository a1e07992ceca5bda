import type { JsonSchema } from '../../engine/fields/index.ts';
import { hasKey, implies } from '../../engine/yaml/index.ts';
import { type SettingsConfig, sectionSchemas, senderSchema, shortestSecret } from './load.ts';
import schema from './settings.schema.json' with { type: 'json' };
import { defaults } from './settings.ts';

const { payment, secrets } = schema.$defs;

/**
 * JSON Schema for a literal secret of at least the minimum length, or a variable reference whose value is
 * checked at startup.
 */
const secret = {
  type: 'string',
  pattern: `^(?:[\\s\\S]*\\$\\{[\\s\\S]*|\\s*(?:\\S[\\s\\S]{${shortestSecret - 2},}\\S)?\\s*)$`,
};

/** Returns the JSON Schema for config.yaml, for use in editors, with defaults and dependencies between keys. */
export const settingsEditorSchema = ({ modules = [] }: Pick<SettingsConfig, 'modules'>): JsonSchema => ({
  ...schema,
  properties: { ...withDefaults(schema.properties, defaults), ...sectionSchemas(modules) },
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
      ...senderSchema(modules),
      allOf: [implies(hasKey('sender', 'whatsapp_cloud'), { required: ['phone_number_id', 'access_token'] })],
    },
  },
});

/** Adds defaults to schema properties. */
function withDefaults(properties: JsonSchema, values: object): JsonSchema {
  const defaultsByName = new Map<string, unknown>(Object.entries(values));
  return Object.fromEntries(
    Object.entries(properties).map(([name, property]) => {
      const value = defaultsByName.get(name);
      const { properties: nested } = property as { readonly properties?: JsonSchema };
      if (nested !== undefined && typeof value === 'object' && value !== null) {
        return [name, { ...(property as JsonSchema), properties: withDefaults(nested, value) }];
      }
      return [name, value === undefined ? property : { ...(property as JsonSchema), default: value }];
    }),
  );
}
