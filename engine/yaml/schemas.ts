type Schema = Readonly<Record<string, unknown>>;

/** Returns a schema that requires the consequence if the condition is met. */
export const implies = (condition: Schema, consequence: Schema): Schema => ({
  if: condition,
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: consequence,
});

/** Returns a condition that requires a key to have a value. */
export const hasKey = (key: string, value: unknown): Schema => ({
  required: [key],
  properties: { [key]: { const: value } },
});

/** Returns a schema that accepts only the given words. Without words, it rejects every value. */
export const oneOfSchema = (words: readonly string[]): Schema =>
  words.length > 0 ? { enum: words } : { not: {} };
