// The OpenAPI document and the API explorer.
// May import engine.

export { explorerModule } from './module.ts';
