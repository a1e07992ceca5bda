// simulate:
// May import

export { simulateModule } from './module.ts';
