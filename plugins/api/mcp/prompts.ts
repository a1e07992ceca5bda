import type { Server } from '@modelcontextprotocol/server';

/** A parameter of a prompt. */
interface PromptParameter {
  readonly name: string;
  readonly description: string;
  readonly required: true;
}

/** A prompt that users can choose in their client. */
interface PromptDefinition {
  readonly name: string;
  readonly description: string;
  readonly parameters: readonly PromptParameter[];
  /** Returns the message to the model. @param values the values of the parameters */
  readonly text: (values: Readonly<Record<string, string>>) => string;
}

const resource: PromptParameter = {
  name: 'resource',
  description: 'Name of the resource, for example the one that describe lists first',
  required: true,
};
const id: PromptParameter = { name: 'id', description: 'ID of the record', required: true };

/** Prompts for tasks of every CRM. None of them asks for a write without the user's consent. */
const prompts: readonly PromptDefinition[] = [
  {
    name: 'summarize',
    description: 'Summarize a record and what has happened to it',
    parameters: [resource, id],
    text: (values) =>
      `Summarize record ${values.id} of ${values.resource}: call describe for the resource, get for the record and history for its changes. Write at most ten lines: who or what it is, its current state, the last changes and who made them, and what seems to be missing. Do not change anything.`,
  },
  {
    name: 'review',
    description: 'Review the records of a resource: numbers first, then what stands out',
    parameters: [resource],
    text: (values) =>
      `Review ${values.resource}: call describe for the resource, aggregate for the numbers by its most important fields, and find for the records that stand out, for example old ones without an owner or a next step. Report the numbers as a table, then at most five observations with the IDs of the records. Do not change anything.`,
  },
  {
    name: 'find_duplicates',
    description: 'Find records that probably mean the same',
    parameters: [resource],
    text: (values) =>
      `Find probable duplicates among ${values.resource}: call describe for the resource, then find with the fields that identify a record, page by page. List the pairs with their IDs, what they have in common, what differs, and which one is more complete. Ask me before you change anything.`,
  },
];

/** Adds the prompts of the protocol. */
export function addPrompts(
  {
    ProtocolError,
    ProtocolErrorCode,
  }: Pick<typeof import('@modelcontextprotocol/server'), 'ProtocolError' | 'ProtocolErrorCode'>,
  server: Server,
): void {
  server.setRequestHandler('prompts/list', () => ({
    prompts: prompts.map(({ name, description, parameters }) => ({
      ...{ name, description },
      arguments: [...parameters],
    })),
  }));
  server.setRequestHandler('prompts/get', ({ params: { name, arguments: values = {} } }) => {
    const reject = (message: string): never => {
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, message);
    };
    const prompt = prompts.find((candidate) => candidate.name === name);
    if (prompt === undefined)
      return reject(`Unknown prompt "${name}". Prompts: ${prompts.map((one) => one.name).join(', ')}`);
    const missing = prompt.parameters.find((parameter) => values[parameter.name] === undefined);
    if (missing !== undefined) return reject(`The prompt ${name} needs the argument ${missing.name}`);
    const text = prompt.text(values);
    return { messages: [{ role: 'user' as const, content: { type: 'text' as const, text } }] };
  });
}
