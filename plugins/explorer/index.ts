// explorer:
// May import

export { explorerModule } from './module.ts';
