// Explorer: the API's description and an explorer of it.
// May import engine.

export { explorerModule } from './module.ts';
