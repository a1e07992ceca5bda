// operations:
// May import

export { operations } from './operations.ts';
