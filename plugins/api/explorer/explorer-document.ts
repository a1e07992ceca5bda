import type { JsonSchema } from '../../../engine/fields/index.ts';

/** Introduction for readers who have an API key. */
const firstSteps = `**To try it, paste an API key** under *Authentication*, open a request, for example a resource's *List*, and press *Test Request*, then *Send*. The first start of an empty instance prints a key; you can create more in the [admin UI](/setup). Requests read and change the records of the key's organization.

The OpenAPI document for programs and code generators is [\`/docs/openapi.json\`](/docs/openapi.json).`;

/**
 * Adapts the OpenAPI document for the explorer. By default, Scalar sends every parameter that has a known value, for
 * example the first value of an enumeration. An empty example prevents this for optional parameters.
 */
export function explorerDocument(document: JsonSchema): JsonSchema {
  const { info, components } = document as { readonly info: JsonSchema; readonly components: JsonSchema };
  const parameters = Object.entries(components.parameters as Readonly<Record<string, JsonSchema>>);
  return {
    ...document,
    info: { ...info, description: `${firstSteps}\n\n${info.description}` },
    components: {
      ...components,
      parameters: Object.fromEntries(
        parameters.map(([name, parameter]) => [
          name,
          hasValue(parameter) ? { ...parameter, example: '' } : parameter,
        ]),
      ),
    },
  };
}

/** Returns whether Scalar would send an optional parameter. */
const hasValue = ({ required, schema }: JsonSchema): boolean =>
  required !== true &&
  ['default', 'enum', 'examples'].some((key) => Object.hasOwn(schema as JsonSchema, key));
