// Name uses: which API keys named which resources and fields, for maintainers who take one away.
// May import engine, last-used, api-keys.

export { nameUses } from './module.ts';
export { type NameUse, usesOf } from './uses.ts';
