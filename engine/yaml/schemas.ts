type Schema = Readonly<Record<string, unknown>>;

/** A schema of what must hold where a condition does. */
export const implies = (condition: Schema, consequence: Schema): Schema => ({
  if: condition,
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: consequence,
});

/** The condition that a key has a value. */
export const hasKey = (key: string, value: unknown): Schema => ({
  required: [key],
  properties: { [key]: { const: value } },
});

/** One of some words; where there are none, no value is right. */
export const oneOfSchema = (words: readonly string[]): Schema =>
  words.length > 0 ? { enum: words } : { not: {} };
